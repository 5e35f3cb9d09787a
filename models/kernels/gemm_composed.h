// Products whose addition or epilogue the library has not: the plain product, then passes over its result.
#pragma once
#include <memory>

#include "models/kernels/gemm.h"

namespace zrt::models {

// `make` makes plain products.
std::unique_ptr<Gemm> compose_gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec& plain));

}  // namespace zrt::models
