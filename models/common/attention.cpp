#include "models/common/attention.h"

#include "core/device.h"

namespace zrt::models {

Attention::Attention(const BlockSizes& sizes, int64_t all, int64_t all_kv, int64_t head_width,
                     const AttentionPattern& kept)
    : heads(all / sizes.degrees.tensor),
      kv_heads(all_kv / sizes.degrees.tensor),
      width(head_width),
      all_heads(all),
      dropout(sizes.dropout),
      pattern(kept) {}

AttentionShape Attention::shape_of(const Shape& shape, int tensor_rank) const {
  const float probability = shape.mode == Mode::train ? dropout : 0;
  return {shape.B,
          shape.T,
          heads,
          kv_heads,
          width,
          shape.type,
          probability,
          all_heads,
          tensor_rank * heads,
          pattern,
          scale_width,
          cap,
          shape.documents && shape.mode != Mode::decode};
}

AttentionShape Attention::shape_of(const Call& call) const {
  AttentionShape shape = shape_of(call.shape, call.tensor_rank);
  shape.positions = call.positions;
  return shape;
}

std::vector<Linear> Attention::linears() const {
  std::vector<Linear> all;
  for (const Product& strip : strips) all.push_back(strip.linear);
  all.push_back(output.linear);
  return all;
}

double Attention::flops(const Shape& shape) const {
  const bool half = pattern.causal && shape.mode != Mode::decode;
  const double keys = static_cast<double>(shape.T) * pattern.share(shape.T) / (half ? 2 : 1);
  return 2 * 2 * static_cast<double>(shape.rows()) * keys * static_cast<double>(attended_width());
}

Attention::Kept Attention::kept_in(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  if (shape.mode == Mode::train) kept.lse = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads) * 4);
  if (turning) kept.norms = turning->statistics_in(layout, shape, shape_of(shape));
  kept.qkv = layout.take(qkv_bytes(shape)), kept.attended = layout.take(bytes_of_rows(shape, attended_width()));
  if (keeps_turned(shape)) kept.turned = layout.take(qkv_bytes(shape));
  return kept;
}

uint64_t Attention::turned_bytes(const Shape& shape) const {
  return turns_apart(shape) && !keeps_turned(shape) ? qkv_bytes(shape) : 0;
}

uint64_t Attention::forward_workspace(const Shape& shape) const {
  const AttentionShape all = shape_of(shape);
  return shape.mode == Mode::decode ? attention_decode_workspace(all) : attention_forward_workspace(all);
}

void Attention::forward(const Call& call, const Kept& kept, const Forward& space, const Dropout& dropped,
                        const void* normed, void* to, const void* add) const {
  const AttentionShape all = shape_of(call);
  for (const Product& strip : strips) {
    strip.linear.forward(call, strip.weight, normed, strip.outputs_in(call.shape.type, kept.qkv), space.scratch);
  }
  void* const apart = kept.turned != nullptr ? kept.turned : space.turned;
  void* const qkv = apart != nullptr ? apart : kept.qkv;
  if (turning) turning->turn(call, all, kept.qkv, qkv, kept.norms);
  if (call.shape.mode == Mode::decode) {
    attention_decode(all, qkv, kept.attended, call.position, call.cache, space.workspace);
  } else {
    attention_forward(all, qkv, kept.attended, kept.lse, dropped, call.first_sample, space.workspace);
  }
  output.linear.forward(call, output.weight, kept.attended, to, space.scratch, add);
}

uint64_t Attention::backward_scratch(const Shape& shape) const {
  return turning ? turning->backward_scratch(shape, shape_of(shape)) : 0;
}

void Attention::workspace_in(Backward& space, BumpAllocator& layout, const Shape& shape) const {
  space.turned = layout.take(turned_bytes(shape));
  space.workspace = layout.take<std::byte>(attention_backward_workspace(shape_of(shape)));
}

void Attention::hold(Backward& space, BumpAllocator& layout, const Shape& shape) const {
  space.attended = layout.take(bytes_of_rows(shape, attended_width())), space.d_qkv = layout.take(qkv_bytes(shape));
  if (turning) space.of_norms = layout.take<float>(turning->held_bytes(width));
}

void Attention::backward_heads(const Call& call, const Kept& kept, const Backward& space, const Dropout& dropped,
                               const void* d_output) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  if (call.half == Half::input) {
    core::copy_bytes(space.attended, kept.attended, bytes_of_rows(shape, attended_width()));
  }
  if (weights) {
    const void* const attended = inputs ? kept.attended : space.attended;
    output.linear.weight_gradients(call, output.weight, attended, d_output, space.scratch);
  }
  if (!inputs) return;
  const AttentionShape all = shape_of(call);
  output.linear.input_gradient(call, output.weight, d_output, space.d_attended, space.scratch);
  void* const apart = kept.turned != nullptr ? kept.turned : space.turned;
  void* const qkv = apart != nullptr ? apart : kept.qkv;
  if (kept.turned == nullptr && apart != nullptr) turning->turn(call, all, kept.qkv, qkv, kept.norms);
  attention_backward(all, qkv, kept.attended, kept.lse, space.d_attended, space.d_qkv, dropped, call.first_sample,
                     space.workspace);
  if (turning) turning->turn_back(call, all, kept.qkv, kept.norms, space.d_qkv, space.scratch, space.of_norms);
}

void Attention::backward_strips(const Call& call, const Backward& space, const void* normed, void* d_normed) const {
  const auto d = [&](const Product& strip) { return strip.outputs_in(call.shape.type, space.d_qkv); };
  if (call.half != Half::input) {
    for (const Product& strip : strips) {
      strip.linear.weight_gradients(call, strip.weight, normed, d(strip), space.scratch);
    }
  }
  if (call.half == Half::weight && turning) turning->write_held(call, width, space.of_norms);
  if (call.half == Half::weight) return;
  for (const Product& strip : strips) {
    strip.linear.input_gradient(call, strip.weight, d(strip), d_normed, space.scratch);
  }
}

}  // namespace zrt::models
