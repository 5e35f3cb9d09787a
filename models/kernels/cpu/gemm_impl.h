// The ways a product can be made on the CPU; gemm_table.cpp chooses by fixed rules, so that a spec always has the same
// kernel on the same machine.
#pragma once
#include <memory>
#include <string>

#include "models/kernels/gemm.h"

namespace zrt::models::cpu {

// One oneDNN matmul primitive for core::threads() threads. Throws core::Error when oneDNN has none.
std::unique_ptr<Gemm> make_dnnl_gemm(const GemmSpec& spec);

// The product in fp32 tiles: operands are widened and packed a tile at a time, tiles are multiplied by oneDNN. For bf16
// where fp32 units are faster than bf16 units, for fp16, and for strides at which the rows of a tile would share cache
// lines' sets.
std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec);
bool tiles_pay(const GemmSpec& spec);

// Operands are rounded to e4m3 and multiplied by what `make` makes for dense matrices of bf16.
std::unique_ptr<Gemm> make_fp8_gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&));

// Whether products of bf16 run faster in bf16 units than widened to fp32.
bool fast_bf16();

std::string dnnl_version();  // "2.6.3"
bool dnnl_has_bf16();        // bf16 dot products (AVX512-BF16) or tiles (AMX)
bool dnnl_has_amx();

}  // namespace zrt::models::cpu
