// Products of each expert with its rows: as many as it has, in pieces of powers of two times the grain, so that the
// kernel table has few entries, all of them made when memory is planned.
#include <algorithm>
#include <cstring>

#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/experts.h"
#include "models/kernels/gemm.h"

namespace zrt::models::cpu {
namespace {

GemmSpec forward_spec(const ExpertProduct& of, int64_t rows) {
  GemmSpec spec{rows, of.out, of.in, false, true, of.in, of.in, of.out};
  spec.a = spec.b = spec.c = of.type;
  return spec;
}

GemmSpec input_spec(const ExpertProduct& of, int64_t rows, bool add) {
  GemmSpec spec{rows, of.in, of.out, false, false, of.out, of.in, of.in};
  spec.a = spec.b = spec.c = of.type, spec.accumulate = add;
  return spec;
}

GemmSpec weight_spec(const ExpertProduct& of, int64_t rows, bool add, DType type) {
  GemmSpec spec{of.out, of.in, rows, true, false, of.out, of.in, of.in};
  spec.a = spec.b = of.type, spec.c = type, spec.accumulate = add;
  return spec;
}

// Calls body(first slot, slots) for the pieces of an expert's rows, the largest first.
template <class Body>
void for_pieces(int64_t start, int64_t count, const Body& body) {
  int64_t left = up_to_grain(count);
  while (left > 0) {
    int64_t piece = slot_grain;
    while (2 * piece <= left) piece *= 2;
    body(start, piece);
    start += piece, left -= piece;
  }
}

template <class Body>
void for_experts(const ExpertProduct& of, const Body& body) {
  for (int64_t e = 0; e < of.experts; ++e) {
    for_pieces(of.starts[e], of.counts[e], [&](int64_t first, int64_t rows) { body(e, first, rows); });
  }
}

const std::byte* row(const void* x, int64_t number, int64_t width, DType type) {
  return static_cast<const std::byte*>(x) + static_cast<size_t>(number * width) * core::dtype_size(type);
}
std::byte* row(void* x, int64_t number, int64_t width, DType type) {
  return static_cast<std::byte*>(x) + static_cast<size_t>(number * width) * core::dtype_size(type);
}

// Sums of several pieces are rounded once: in fp32 where the gradient is not.
uint64_t sum_bytes(const ExpertProduct& of) {
  return of.grad_type == DType::f32 ? 0 : static_cast<uint64_t>((of.in * of.out + 15) / 16 * 16) * sizeof(float);
}

}  // namespace

uint64_t experts_workspace(const ExpertProduct& of) {
  uint64_t bytes = 0;
  for (int64_t rows = slot_grain; rows <= of.slots; rows *= 2) {
    for (const bool add : {false, true}) {
      for (const GemmSpec& spec : {forward_spec(of, rows), input_spec(of, rows, add),
                                   weight_spec(of, rows, add, of.grad_type), weight_spec(of, rows, add, DType::f32)}) {
        bytes = std::max(bytes, find_gemm(spec).workspace_bytes());
      }
    }
  }
  return sum_bytes(of) + bytes;
}

void experts_forward(const ExpertProduct& of, const void* x, const ExpertWeights& weights, void* y,
                     std::byte* workspace) {
  for_experts(of, [&](int64_t e, int64_t first, int64_t rows) {
    find_gemm(forward_spec(of, rows))
        .run(row(x, first, of.in, of.type), weights.of(e), row(y, first, of.out, of.type), nullptr, workspace);
  });
}

void experts_input_gradient(const ExpertProduct& of, const void* dy, const ExpertWeights& weights, bool add, void* dx,
                            std::byte* workspace) {
  for_experts(of, [&](int64_t e, int64_t first, int64_t rows) {
    find_gemm(input_spec(of, rows, add))
        .run(row(dy, first, of.out, of.type), weights.of(e), row(dx, first, of.in, of.type), nullptr, workspace);
  });
}

void experts_weight_gradients(const ExpertProduct& of, const void* x, const void* dy, const ExpertGradients& gradients,
                              std::byte* workspace) {
  for (int64_t e = 0; e < of.experts; ++e) {
    const GradTarget target = gradients.of(e);
    if (target.data == nullptr) continue;
    if (of.counts[e] == 0) {
      if (!target.accumulate) {
        std::memset(target.data, 0, static_cast<size_t>(of.in * of.out) * core::dtype_size(target.type));
      }
      continue;
    }
    const int64_t all = up_to_grain(of.counts[e]);
    const bool apart = target.type != DType::f32 && (all & (all - 1)) != 0;  // several pieces
    void* const sums = apart ? workspace : target.data;
    bool add = !apart && target.accumulate;
    for_pieces(of.starts[e], of.counts[e], [&](int64_t first, int64_t rows) {
      find_gemm(weight_spec(of, rows, add, apart ? DType::f32 : target.type))
          .run(row(dy, first, of.out, of.type), row(x, first, of.in, of.type), sums, nullptr,
               workspace + sum_bytes(of));
      add = true;
    });
    if (apart) models::write_gradient(reinterpret_cast<const float*>(workspace), of.in * of.out, target);
  }
}

}  // namespace zrt::models::cpu
