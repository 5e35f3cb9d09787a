#include "models/common/low_rank.h"

#include <algorithm>

#include "models/bump_allocator.h"

namespace zrt::models {
namespace {

GemmSpec product(const Shape& shape, int64_t M, int64_t N, int64_t K) {
  GemmSpec spec{M, N, K};
  spec.a = spec.b = spec.c = shape.type;
  return spec;
}

}  // namespace

GemmSpec LowRank::down_spec(const Shape& shape, const Of& of) const {
  GemmSpec spec = product(shape, shape.rows(), rank, of.in);
  spec.lda = of.in, spec.trans_b = true, spec.ldb = of.in, spec.ldc = rank, spec.alpha = scale;
  return spec;
}

GemmSpec LowRank::up_spec(const Shape& shape, const Of& of) const {
  GemmSpec spec = product(shape, shape.rows(), of.out, rank);
  spec.lda = rank, spec.trans_b = true, spec.ldb = rank, spec.ldc = of.stride, spec.accumulate = true;
  return spec;
}

GemmSpec LowRank::d_down_spec(const Shape& shape, const Of& of) const {
  GemmSpec spec = product(shape, shape.rows(), rank, of.out);
  spec.lda = of.stride, spec.ldb = rank, spec.ldc = rank, spec.alpha = scale;
  return spec;
}

GemmSpec LowRank::d_input_spec(const Shape& shape, const Of& of) const {
  GemmSpec spec = product(shape, shape.rows(), of.in, rank);
  spec.lda = rank, spec.ldb = of.in, spec.ldc = of.in, spec.accumulate = !drops(shape);
  return spec;
}

GemmSpec LowRank::down_gradient_spec(const Shape& shape, const Of& of, bool accumulate) const {
  GemmSpec spec = product(shape, rank, of.in, shape.rows());
  spec.trans_a = true, spec.lda = rank, spec.ldb = of.in, spec.ldc = of.in;
  spec.c = shape.grad_type, spec.accumulate = accumulate;
  return spec;
}

GemmSpec LowRank::up_gradient_spec(const Shape& shape, const Of& of, bool accumulate) const {
  GemmSpec spec = product(shape, of.out, rank, shape.rows());
  spec.trans_a = true, spec.lda = of.stride, spec.ldb = rank, spec.ldc = rank;
  spec.c = shape.grad_type, spec.accumulate = accumulate;
  return spec;
}

LowRank::Space LowRank::forward_space(BumpAllocator& layout, const Shape& shape, const Of& of) const {
  Space space{};
  space.products = layout.take<std::byte>(
      std::max(find_gemm(down_spec(shape, of)).workspace_bytes(), find_gemm(up_spec(shape, of)).workspace_bytes()));
  const uint64_t element = core::dtype_size(shape.type), rows = static_cast<uint64_t>(shape.rows());
  space.low = layout.take(rows * static_cast<uint64_t>(rank) * element);
  if (drops(shape)) space.input = layout.take(rows * static_cast<uint64_t>(of.in) * element);
  return space;
}

LowRank::Space LowRank::backward_space(BumpAllocator& layout, const Shape& shape, const Of& of) const {
  uint64_t products = 0;
  for (const GemmSpec& spec :
       {down_spec(shape, of), d_down_spec(shape, of), d_input_spec(shape, of), down_gradient_spec(shape, of, false),
        down_gradient_spec(shape, of, true), up_gradient_spec(shape, of, false), up_gradient_spec(shape, of, true)}) {
    products = std::max(products, find_gemm(spec).workspace_bytes());
  }
  Space space{};
  space.products = layout.take<std::byte>(products);
  const uint64_t element = core::dtype_size(shape.type), rows = static_cast<uint64_t>(shape.rows());
  space.low = layout.take(rows * static_cast<uint64_t>(rank) * element);
  space.d_low = layout.take(rows * static_cast<uint64_t>(rank) * element);
  if (drops(shape)) space.input = layout.take(rows * static_cast<uint64_t>(of.in) * element);
  return space;
}

uint64_t LowRank::forward_scratch(const Shape& shape, const Of& of) const {
  BumpAllocator layout;
  forward_space(layout, shape, of);
  return layout.bytes();
}

uint64_t LowRank::backward_scratch(const Shape& shape, const Of& of) const {
  BumpAllocator layout;
  backward_space(layout, shape, of);
  return layout.bytes();
}

double LowRank::flops(const Shape& shape, const Of& of) const {
  return 2 * static_cast<double>(shape.rows()) * static_cast<double>(rank) * static_cast<double>(of.in + of.out);
}

// Ranks that have parts of the inputs draw numbers of their own.
Dropout LowRank::dropped(const Call& call, const Of& of) const {
  Dropout dropped{call.rng, dropout};
  dropped.key.tensor = site + (of.shared ? static_cast<uint32_t>(call.tensor_rank) << 24 : 0);
  return dropped;
}

uint64_t LowRank::first_element(const Call& call, const Of& of) const {
  return call.first_sample * static_cast<uint64_t>(call.shape.T * of.in);
}

const void* LowRank::dropped_input(const Call& call, const Of& of, const void* x, void* to) const {
  if (!drops(call.shape)) return x;
  apply_dropout(call.shape.type, x, dropped(call, of), first_element(call, of), to, call.shape.rows() * of.in);
  return to;
}

void LowRank::forward(const Call& call, const Of& of, const void* x, void* y, std::byte* scratch) const {
  BumpAllocator layout(scratch);
  const Space space = forward_space(layout, call.shape, of);
  const void* input = dropped_input(call, of, x, space.input);
  find_gemm(down_spec(call.shape, of)).run(input, call.weights[down], space.low, nullptr, space.products);
  find_gemm(up_spec(call.shape, of)).run(space.low, call.weights[up], y, nullptr, space.products);
}

void LowRank::input_gradient(const Call& call, const Of& of, const void* dy, void* dx, std::byte* scratch) const {
  BumpAllocator layout(scratch);
  const Space space = backward_space(layout, call.shape, of);
  find_gemm(d_down_spec(call.shape, of)).run(dy, call.weights[up], space.d_low, nullptr, space.products);
  void* const to = drops(call.shape) ? space.input : dx;
  find_gemm(d_input_spec(call.shape, of)).run(space.d_low, call.weights[down], to, nullptr, space.products);
  if (to == dx) return;
  add_residual(call.shape.type, dx, to, dropped(call, of), first_element(call, of), dx, call.shape.rows() * of.in);
}

void LowRank::weight_gradients(const Call& call, const Of& of, const void* x, const void* dy,
                               std::byte* scratch) const {
  BumpAllocator layout(scratch);
  const Space space = backward_space(layout, call.shape, of);
  if (call.grads[up] == nullptr && call.grads[down] == nullptr) return;
  const void* input = dropped_input(call, of, x, space.input);
  if (void* to = call.grads[up]) {
    find_gemm(down_spec(call.shape, of)).run(input, call.weights[down], space.low, nullptr, space.products);
    find_gemm(up_gradient_spec(call.shape, of, call.accumulate[up] != 0))
        .run(dy, space.low, to, nullptr, space.products);
  }
  if (void* to = call.grads[down]) {
    find_gemm(d_down_spec(call.shape, of)).run(dy, call.weights[up], space.d_low, nullptr, space.products);
    find_gemm(down_gradient_spec(call.shape, of, call.accumulate[down] != 0))
        .run(space.d_low, input, to, nullptr, space.products);
  }
}

}  // namespace zrt::models
