// Embedding of tokens, with or without positions.
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t row_piece = 512;  // elements of a row handled at a time
// Rows added up before their sum is added to the rows' before: a token of a thousand rows then has a quarter of the
// rounding error of one long sum (tests/models/embedding_test.cpp has the figures).
constexpr int64_t summed_rows = 64;

struct SortSpace {
  int32_t *starts, *order;  // (V + 1) and (rows)
};

SortSpace lay_out_sort(BumpAllocator& layout, const EmbeddingShape& shape) {
  const uint64_t rows = static_cast<uint64_t>(shape.rows());
  return {layout.take<int32_t>((static_cast<uint64_t>(shape.V) + 1) * 4), layout.take<int32_t>(rows * 4)};
}

// The row of the table that output row `row` begins with, or -1 where another rank has it.
int64_t table_row(const EmbeddingShape& shape, const int32_t* tokens, int64_t row) {
  if (tokens == nullptr) return row;
  const int64_t v = tokens[row] - shape.first_token;
  return v >= 0 && v < shape.V ? v : -1;
}

// starts[v] … starts[v + 1]: the places in `order` of the rows with the table's token v, in order of position.
void sort_by_token(const EmbeddingShape& shape, const int32_t* tokens, const SortSpace& space) {
  const int64_t rows = shape.rows(), V = shape.V;
  std::fill(space.starts, space.starts + V + 1, 0);
  for (int64_t row = 0; row < rows; ++row) {
    if (const int64_t v = table_row(shape, tokens, row); v >= 0) ++space.starts[v + 1];
  }
  for (int64_t v = 0; v < V; ++v) space.starts[v + 1] += space.starts[v];
  for (int64_t row = 0; row < rows; ++row) {
    if (const int64_t v = table_row(shape, tokens, row); v >= 0)
      space.order[space.starts[v]++] = static_cast<int32_t>(row);
  }
  // Placing moved every start to its successor's: move them back.
  for (int64_t v = V; v > 0; --v) space.starts[v] = space.starts[v - 1];
  space.starts[0] = 0;
}

// Sums d_out rows row_of(0) … row_of(count - 1) into row `target_row` of a gradient.
template <class T, class RowOf>
void sum_rows(const T* d_out, int64_t C, const Dropout& dropout, uint64_t first, const GradTarget& grad,
              int64_t target_row, int64_t count, const RowOf& row_of) {
  float total[row_piece], sum[row_piece], mask[row_piece];
  for (int64_t c = 0; c < C; c += row_piece) {
    const int64_t n = std::min(row_piece, C - c);
    std::fill(total, total + n, 0.0f);
    std::fill(sum, sum + n, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0 && i % summed_rows == 0) {
        typed_kernels<float>().add(total, sum, nullptr, total, n);
        std::fill(sum, sum + n, 0.0f);
      }
      const int64_t at = row_of(i) * C + c;
      if (dropout.probability > 0) {
        vector_kernels().dropout_mask(dropout_key(dropout), first + static_cast<uint64_t>(at), mask, n);
      }
      typed_kernels<T>().accumulate(d_out + at, dropout.probability > 0 ? mask : nullptr, sum, n);
    }
    typed_kernels<float>().add(total, sum, nullptr, total, n);
    write_gradient(grad, target_row * C + c, total, n);
  }
}

void zero_rows(const GradTarget& grad, int64_t begin, int64_t end, int64_t C) {
  if (grad.accumulate || begin >= end) return;
  const size_t row_bytes = static_cast<size_t>(C) * core::dtype_size(grad.type);
  std::memset(static_cast<std::byte*>(grad.data) + static_cast<size_t>(begin) * row_bytes, 0,
              static_cast<size_t>(end - begin) * row_bytes);
}

}  // namespace

void embed(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* wte, const void* wpe,
           int64_t position, const Dropout& dropout, uint64_t first, void* out) {
  const int64_t C = shape.C;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T zeros[row_piece] = {};
    core::parallel_for(shape.rows(), 8, [&](int64_t begin, int64_t end) {
      float mask[row_piece];
      for (int64_t row = begin; row < end; ++row) {
        const int64_t v = table_row(shape, tokens, row);
        const int64_t t =
            shape.row_positions ? shape.row_positions[row] : position + (shape.first_row() + row) % shape.T;
        const T* place = wpe ? static_cast<const T*>(wpe) + t * C : nullptr;
        for (int64_t c = 0; c < C; c += row_piece) {
          const int64_t n = std::min(row_piece, C - c);
          const T* from = v >= 0 ? static_cast<const T*>(wte) + v * C + c : zeros;
          T* to = static_cast<T*>(out) + row * C + c;
          if (place == nullptr) {
            if (to != from) std::copy(from, from + n, to);
          } else if (dropout.probability == 0) {
            typed_kernels<T>().add(from, place + c, nullptr, to, n);
          } else {
            vector_kernels().dropout_mask(dropout_key(dropout), first + static_cast<uint64_t>(row * C + c), mask, n);
            typed_kernels<T>().add_then_mask(from, place + c, mask, to, n);
          }
        }
      }
    });
  });
}

uint64_t embed_backward_workspace(const EmbeddingShape& shape) {
  BumpAllocator layout;
  lay_out_sort(layout, shape);
  return layout.bytes();
}

void embed_backward(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* d_out,
                    const Dropout& dropout, uint64_t first, GradTarget dwte, GradTarget dwpe, void* workspace) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T* d = static_cast<const T*>(d_out);
    if (dwte.data != nullptr) {
      BumpAllocator layout(static_cast<std::byte*>(workspace));
      const SortSpace space = lay_out_sort(layout, shape);
      sort_by_token(shape, tokens, space);
      core::parallel_for(shape.V, 64, [&](int64_t begin, int64_t end) {
        for (int64_t v = begin; v < end; ++v) {
          const int64_t start = space.starts[v], count = space.starts[v + 1] - start;
          if (count == 0) {
            zero_rows(dwte, v, v + 1, shape.C);
          } else {
            sum_rows(d, shape.C, dropout, first, dwte, v, count, [&](int64_t i) { return space.order[start + i]; });
          }
        }
      });
    }
    if (dwpe.data == nullptr) return;
    core::parallel_for(shape.T, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t at = shape.first_at(t), count = (std::max(shape.rows() - at, int64_t{0}) + shape.T - 1) / shape.T;
        sum_rows(d, shape.C, dropout, first, dwpe, t, count, [&](int64_t i) { return at + i * shape.T; });
      }
    });
  });
  if (dwpe.data != nullptr) zero_rows(dwpe, shape.T, shape.positions, shape.C);
}

void token_types(const int32_t* tokens, int64_t B, int64_t T, int32_t separator, int32_t* types) {
  for (int64_t b = 0; b < B; ++b) {
    int32_t type = 0;
    for (int64_t row = b * T; row < (b + 1) * T; ++row) {
      types[row] = type;
      if (tokens[row] == separator) type = 1;
    }
  }
}

void add_rows(DType type, const void* table, const int32_t* numbers, int64_t rows, int64_t C, void* y) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = static_cast<T*>(y) + row * C;
        typed_kernels<T>().add(to, static_cast<const T*>(table) + numbers[row] * C, nullptr, to, C);
      }
    });
  });
}

}  // namespace zrt::models::cpu
