// The matrix products of the CUDA back end.
#pragma once
#include <memory>
#include <string>

#include "models/kernels/gemm.h"

namespace zrt::models::cuda {

// Throws core::Error for types that cuBLASLt does not multiply. Needs no GPU; which algorithm runs is settled by the
// library's own rules on the first call of run, without timing, and stays.
std::unique_ptr<Gemm> make_gemm(const GemmSpec& spec);
// Makes the same, or with GemmSpec::fp8 a product of operands of e4m3 behind kernels that round them.
std::unique_ptr<Gemm> make_any_gemm(const GemmSpec& spec);

std::string products_library();  // with its version

// C (M, N) += bias (N) of type `bias_type`, on place()'s stream.
void add_bias(DType type, void* c, int64_t M, int64_t N, int64_t ldc, DType bias_type, const void* bias);

}  // namespace zrt::models::cuda
