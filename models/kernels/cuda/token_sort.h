// A stable sort of rows by token on the GPU.
#pragma once
#include <cstdint>

#include "models/bump_allocator.h"

namespace zrt::models::cuda {

struct TokenSort {
  int32_t *order, *scratch;  // (rows) each
  int32_t* counts;           // of digits, per block of rows
  int32_t* starts;           // (V + 1)
};
// Takes its memory; the sizes depend on rows and V alone.
TokenSort token_sort_in(BumpAllocator& layout, int64_t rows, int64_t V);

// order: the rows by token, those of a token in order of position; starts[v] … starts[v + 1], v < V, are the places in
// it of the rows with token first_token + v. Rows with lower tokens come before, and those with higher ones behind,
// each in order of position: a token's places do not depend on which V tokens are asked for.
void sort_by_token(const int32_t* tokens, int64_t rows, int64_t first_token, int64_t V, const TokenSort& space);

}  // namespace zrt::models::cuda
