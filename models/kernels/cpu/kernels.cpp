#include "models/kernels/kernels.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t row_grain = 8;          // rows per piece of work
constexpr int64_t element_grain = 16384;  // elements per piece of work
constexpr int64_t mask_elements = 512;    // dropout masks are drawn in pieces of this size on the stack

// Calls body(begin, count, mask) on pieces of n elements, with their masks or null.
template <class Body>
void with_masks(const Dropout& dropout, uint64_t first, int64_t n, const Body& body) {
  core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
    if (dropout.probability == 0) return body(begin, end - begin, static_cast<const float*>(nullptr));
    float mask[mask_elements];
    for (int64_t at = begin; at < end; at += mask_elements) {
      const int64_t count = std::min(mask_elements, end - at);
      vector_kernels().dropout_mask(dropout_key(dropout), first + static_cast<uint64_t>(at), mask, count);
      body(at, count, static_cast<const float*>(mask));
    }
  });
}

template <class T>
const NormKernels<T>& norm_kernels(NormKind kind) {
  return kind == NormKind::layer ? typed_kernels<T>().layernorm : typed_kernels<T>().rmsnorm;
}

// Calls body(first, count) for the rows from `begin` to `end`, as many at a time as are adjacent.
template <class Body>
void for_adjacent(const NormRows& rows, int64_t begin, int64_t end, const Body& body) {
  while (begin < end) {
    const int64_t count = rows.group == 0 ? end - begin : std::min(end - begin, rows.group - begin % rows.group);
    body(begin, count);
    begin += count;
  }
}

}  // namespace

void norm(NormKind kind, DType type, const void* x, const void* gamma, const void* beta, void* y, float* mean,
          float* rstd, float epsilon, const NormRows& rows) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows.rows, row_grain, [&](int64_t begin, int64_t end) {
      for_adjacent(rows, begin, end, [&](int64_t row, int64_t count) {
        norm_kernels<T>(kind).forward(static_cast<const T*>(x) + rows.at(row), static_cast<const T*>(gamma),
                                      static_cast<const T*>(beta), static_cast<T*>(y) + rows.at(row),
                                      mean ? mean + row : nullptr, rstd ? rstd + row : nullptr, epsilon,
                                      gamma_base(kind), count, rows.C);
      });
    });
  });
}

void norm_backward(NormKind kind, DType type, const void* x, const void* gamma, const void* dy, const float* mean,
                   const float* rstd, const void* add, void* dx, GradTarget dgamma, GradTarget dbeta,
                   const NormRows& rows, void*) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    // The weights first: dx may overwrite dy.
    core::parallel_for(rows.C, column_tile, [&](int64_t begin, int64_t end) {
      float g[column_tile], b[column_tile];
      for (int64_t at = begin; at < end; at += column_tile) {
        const int64_t n = std::min(column_tile, end - at);
        double all_g[column_tile] = {}, all_b[column_tile] = {};
        for_adjacent(rows, 0, rows.rows, [&](int64_t row, int64_t count) {
          norm_kernels<T>(kind).dweights(static_cast<const T*>(x) + rows.at(row),
                                         static_cast<const T*>(dy) + rows.at(row), mean ? mean + row : nullptr,
                                         rstd + row, count, rows.C, at, n, g, b);
          for (int64_t i = 0; i < n; ++i) {
            all_g[i] += static_cast<double>(g[i]);
            if (kind == NormKind::layer) all_b[i] += static_cast<double>(b[i]);
          }
        });
        for (int64_t i = 0; i < n; ++i) g[i] = static_cast<float>(all_g[i]), b[i] = static_cast<float>(all_b[i]);
        write_gradient(dgamma, at, g, n);
        if (kind == NormKind::layer) write_gradient(dbeta, at, b, n);
      }
    });
    core::parallel_for(rows.rows, row_grain, [&](int64_t begin, int64_t end) {
      for_adjacent(rows, begin, end, [&](int64_t row, int64_t count) {
        const int64_t at = rows.at(row);
        norm_kernels<T>(kind).dx(static_cast<const T*>(x) + at, static_cast<const T*>(gamma),
                                 static_cast<const T*>(dy) + at, mean ? mean + row : nullptr, rstd + row,
                                 add ? static_cast<const T*>(add) + at : nullptr, static_cast<T*>(dx) + at,
                                 gamma_base(kind), count, rows.C);
      });
    });
  });
}

uint64_t norm_backward_workspace(NormKind, int64_t, int64_t) {
  return 0;
}
uint64_t bias_gradient_workspace(int64_t, int64_t) {
  return 0;
}

void bias_gradient(DType type, const void* x, int64_t rows, int64_t n, int64_t stride, GradTarget grad, void*) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, column_tile, [&](int64_t begin, int64_t end) {
      float sums[column_tile];
      for (int64_t at = begin; at < end; at += column_tile) {
        const int64_t count = std::min(column_tile, end - at);
        typed_kernels<T>().column_sums(static_cast<const T*>(x), rows, stride, at, count, sums);
        write_gradient(grad, at, sums, count);
      }
    });
  });
}

void write_gradient(const float* sums, int64_t n, GradTarget grad) {
  write_gradient(grad, 0, sums, n);
}

void gelu(DType type, const void* x, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().gelu(static_cast<const T*>(x) + begin, static_cast<T*>(y) + begin, end - begin);
    });
  });
}

void gelu_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      T* const again = y == nullptr ? nullptr : static_cast<T*>(y) + begin;
      typed_kernels<T>().gelu_backward(static_cast<const T*>(x) + begin, static_cast<T*>(d) + begin, again,
                                       end - begin);
    });
  });
}

void gelu_erf(DType type, const void* x, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().gelu_erf(static_cast<const T*>(x) + begin, static_cast<T*>(y) + begin, end - begin);
    });
  });
}

void gelu_erf_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      T* const again = y == nullptr ? nullptr : static_cast<T*>(y) + begin;
      typed_kernels<T>().gelu_erf_backward(static_cast<const T*>(x) + begin, static_cast<T*>(d) + begin, again,
                                           end - begin);
    });
  });
}

void swiglu(DType type, const void* gate, const void* up, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().swiglu(static_cast<const T*>(gate) + begin, static_cast<const T*>(up) + begin,
                                static_cast<T*>(y) + begin, end - begin);
    });
  });
}

void swiglu_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().swiglu_backward(static_cast<const T*>(gate) + begin, static_cast<const T*>(up) + begin,
                                         static_cast<T*>(d) + begin, static_cast<T*>(d_up) + begin, end - begin);
    });
  });
}

void geglu(DType type, const void* gate, const void* up, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().geglu(static_cast<const T*>(gate) + begin, static_cast<const T*>(up) + begin,
                               static_cast<T*>(y) + begin, end - begin);
    });
  });
}

void geglu_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, element_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().geglu_backward(static_cast<const T*>(gate) + begin, static_cast<const T*>(up) + begin,
                                        static_cast<T*>(d) + begin, static_cast<T*>(d_up) + begin, end - begin);
    });
  });
}

void copy_columns(DType type, const void* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t n) {
  const size_t size = core::dtype_size(type);
  core::parallel_for(rows, row_grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(static_cast<std::byte*>(y) + static_cast<size_t>(row * y_stride) * size,
                  static_cast<const std::byte*>(x) + static_cast<size_t>(row * x_stride) * size,
                  static_cast<size_t>(n) * size);
    }
  });
}

void add_residual(DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first, void* y,
                  int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    with_masks(dropout, first, n, [&](int64_t at, int64_t count, const float* mask) {
      typed_kernels<T>().add(static_cast<const T*>(a) + at, static_cast<const T*>(b) + at, mask,
                             static_cast<T*>(y) + at, count);
    });
  });
}

void apply_dropout(DType type, const void* x, const Dropout& dropout, uint64_t first, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    with_masks(dropout, first, n, [&](int64_t at, int64_t count, const float* mask) {
      const T* from = static_cast<const T*>(x) + at;
      T* to = static_cast<T*>(y) + at;
      if (mask != nullptr) return typed_kernels<T>().multiply(from, mask, to, count);
      if (to != from) std::copy(from, from + count, to);
    });
  });
}

void residual_norm(NormKind kind, DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first,
                   void* sum, const void* gamma, const void* beta, void* y, float* mean, float* rstd, float epsilon,
                   int64_t rows, int64_t C) {
  cpu::add_residual(type, a, b, dropout, first, sum, rows * C);
  cpu::norm(kind, type, sum, gamma, beta, y, mean, rstd, epsilon, {rows, C});
}

}  // namespace zrt::models::cpu
