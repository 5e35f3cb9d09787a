// Rounds bf16 to e4m3 with one scale per tensor, for products of fp8.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace zrt::models::cuda {

// A stored matrix of bf16; `turned`: its copy is the transposed matrix. Rows and columns are multiples of 16.
struct QuantisedMatrix {
  int64_t rows, columns, ld;
  bool turned;
};

inline constexpr int quantise_parts = 256;  // of a tensor, each with its largest magnitude

// Writes to `to` the dense copy of x (or its transposed), rounded to e4m3 after scaling by the power of two of fp8.h,
// and to `scale` what the copy must be multiplied by. `parts`: quantise_parts words of workspace; `to` lies on 16
// bytes.
void quantise(const QuantisedMatrix& matrix, const core::bf16* x, uint32_t* parts, core::e4m3* to, float* scale);

}  // namespace zrt::models::cuda
