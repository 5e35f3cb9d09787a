#include "models/common/head_turning.h"

#include <algorithm>

#include "models/common/transformer_block.h"

namespace zrt::models {
namespace {

// Keys and values in rows that start with the queries.
void* keys_in(const AttentionShape& heads, void* qkv) {
  return static_cast<std::byte*>(qkv) + static_cast<uint64_t>(heads.C()) * core::dtype_size(heads.type);
}
void* values_in(const AttentionShape& heads, void* qkv) {
  return static_cast<std::byte*>(keys_in(heads, qkv)) +
         static_cast<uint64_t>(heads.kv()) * core::dtype_size(heads.type);
}

NormRows head_rows(const Call& call, const AttentionShape& heads, int64_t count) {
  return {call.shape.rows() * count, heads.width, count, heads.row()};
}

}  // namespace

HeadTurning::Statistics HeadTurning::statistics_in(BumpAllocator& layout, const Shape& shape,
                                                   const AttentionShape& heads) const {
  if (!norms || shape.mode != Mode::train) return {};
  Statistics statistics;
  statistics.queries = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads.heads) * 4);
  statistics.keys = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads.kv_heads) * 4);
  return statistics;
}

uint64_t HeadTurning::backward_scratch(const Shape& shape, const AttentionShape& heads) const {
  if (!norms) return 0;
  const auto scratch = [&](int64_t count) {
    return norm_backward_workspace(norms->kind, shape.rows() * count, heads.width);
  };
  return std::max(scratch(heads.heads), scratch(heads.kv_heads));
}

void HeadTurning::rotate(const Call& call, const AttentionShape& heads, bool backward, void* qkv) const {
  const Shape& shape = call.shape;
  const bool one = shape.mode == Mode::decode;
  const RotaryShape rows{shape.rows(),
                         one ? 1 : shape.T,
                         heads.heads + heads.kv_heads,
                         heads.width,
                         heads.row(),
                         scale,
                         heads.documents ? heads.positions : nullptr};
  rotary(shape.type, rows, frequencies.data(), one ? call.position : 0, backward, qkv);
}

void HeadTurning::turn(const Call& call, const AttentionShape& heads, void* qkv, void* to,
                       const Statistics& statistics) const {
  if (norms) {
    const auto one = [&](size_t weight, const void* from, void* normed, float* rstd, int64_t count) {
      norm(norms->kind, heads.type, from, call.weights[weight], nullptr, normed, nullptr, rstd, norms->epsilon,
           head_rows(call, heads, count));
    };
    one(norms->queries, qkv, to, statistics.queries, heads.heads);
    one(norms->keys, keys_in(heads, qkv), keys_in(heads, to), statistics.keys, heads.kv_heads);
    if (to != qkv) {
      copy_columns(heads.type, values_in(heads, qkv), heads.row(), values_in(heads, to), heads.row(), call.shape.rows(),
                   heads.kv());
    }
  }
  rotate(call, heads, false, to);
}

void HeadTurning::turn_back(const Call& call, const AttentionShape& heads, void* qkv, const Statistics& statistics,
                            void* d, std::byte* scratch, float* held) const {
  rotate(call, heads, true, d);
  if (!norms) return;
  const auto one = [&](size_t weight, const void* x, void* dx, const float* rstd, int64_t count, int64_t place) {
    const bool whole = call.half == Half::both;
    const GradTarget target = whole ? grad_target(call, weight) : GradTarget{held + place * heads.width};
    norm_backward(norms->kind, heads.type, x, call.weights[weight], dx, nullptr, rstd, nullptr, dx, target, {},
                  head_rows(call, heads, count), scratch);
  };
  one(norms->queries, qkv, d, statistics.queries, heads.heads, 0);
  one(norms->keys, keys_in(heads, qkv), keys_in(heads, d), statistics.keys, heads.kv_heads, 1);
}

void HeadTurning::write_held(const Call& call, int64_t width, const float* held) const {
  if (!norms) return;
  const auto write = [&](size_t weight, const float* sums) {
    const GradTarget target = grad_target(call, weight);
    if (target.data != nullptr) write_gradient(sums, width, target);
  };
  write(norms->queries, held), write(norms->keys, held + width);
}

}  // namespace zrt::models
