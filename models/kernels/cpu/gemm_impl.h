// The ways a product can be made on the CPU. They are chosen by fixed rules, so that a spec always has the same kernel
// at the same level.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "core/isa.h"
#include "models/kernels/gemm.h"

namespace zrt::models::cpu {

enum class Way : uint8_t { tiles, thin, dnnl };
inline constexpr std::array<std::string_view, 3> way_names{"tiles", "thin", "oneDNN"};

// Chooses by level, types and shape; `fast_bf16` is what fast_bf16() says of the processor.
Way choose_way(const GemmSpec& spec, core::Isa level, bool fast_bf16);
// A product without `add`, epilogue or fp8, for core::threads() threads. Throws core::Error where the way has none.
std::unique_ptr<Gemm> make_gemm_by(Way way, const GemmSpec& spec, core::Isa level);

// Makes one oneDNN matmul primitive, of fp32 and bf16.
std::unique_ptr<Gemm> make_dnnl_gemm(const GemmSpec& spec);
// Makes zrt's own: operands are packed to fp32 a block at a time and multiplied in tiles that registers hold. They may
// be of fp32, bf16 and fp16 in any mixture, of every shape; no element's bits depend on the level or the number of
// threads.
std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec, core::Isa level);
// Makes one for few rows: B is read where it lies.
std::unique_ptr<Gemm> make_thin_gemm(const GemmSpec& spec, core::Isa level);

// Operands are rounded to e4m3 and multiplied by what `make` makes for dense matrices of bf16.
std::unique_ptr<Gemm> make_fp8_gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&));

// True where products of bf16 run faster in bf16 units than widened to fp32.
bool fast_bf16();

std::string dnnl_version();  // "2.6.3"
bool dnnl_has_bf16();        // bf16 dot products (AVX512-BF16) or tiles (AMX)
bool dnnl_has_amx();

}  // namespace zrt::models::cpu
