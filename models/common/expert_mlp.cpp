#include "models/common/expert_mlp.h"

#include <algorithm>

namespace zrt::models {

double ExpertMlp::flops(const Shape& shape, MlpPart part) const {
  const double picks = static_cast<double>(shape.rows() * experts_.choices());
  if (part == MlpPart::projection) return bank_.flops(picks, true);
  return part == MlpPart::hidden ? bank_.flops(picks, false) + router_.flops(shape) : 0;
}

std::vector<GemmSpec> ExpertMlp::products(const Shape& shape) const {
  std::vector<GemmSpec> all = router_.products(shape);
  for (const GemmSpec& spec : bank_.products(shape, experts_.number, shape.rows() * experts_.choices())) {
    all.push_back(spec);
  }
  return all;
}

ExpertMlp::Kept ExpertMlp::kept_in(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.routing = router_.tables_in(layout, shape);
  kept.bank = bank_.kept_in(layout, shape, router_.shape(shape));
  return kept;
}

ExpertMlp::Gradients ExpertMlp::gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const {
  Gradients d{};
  d.bank = bank_.gradients_in(layout, shape, router_.shape(shape));
  d.logits = layout.take(bytes_of_rows(shape, experts_.number));
  if (half != Half::both) lay_out_slots(d.slots, layout, router_.shape(shape));
  return d;
}

ExpertMlp::Scratch ExpertMlp::scratch_in(BumpAllocator& layout, const Shape& shape) const {
  const auto choices = static_cast<uint64_t>(shape.rows() * experts_.choices());
  const RoutingShape routed = router_.shape(shape);
  Scratch scratch{};
  scratch.rows = layout.take(bank_.row_bytes(shape, routed));
  scratch.d_gate = layout.take<float>(choices * sizeof(float));
  scratch.of_products = layout.take<std::byte>(std::max(router_.scratch(shape), bank_.scratch(shape, routed)));
  return scratch;
}

uint64_t ExpertMlp::scratch(const Shape& shape) const {
  BumpAllocator layout;
  scratch_in(layout, shape);
  return layout.bytes();
}

uint64_t ExpertMlp::kept_bytes(const Shape& shape) const {
  BumpAllocator layout;
  kept_in(layout, shape);
  return layout.bytes();
}

// Outside training `gates`, or `ups`, are not needed any more and give their place.
uint64_t ExpertMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train ? bank_.wide_bytes(shape, router_.shape(shape)) : 0;
}

void ExpertMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  router_.forward(call, normed, kept.routing, scratch.of_products);
  const Slots& slots = kept.routing.slots;
  rows_to_slots(shape.type, routed, slots.choice, normed, hidden_, scratch.rows);
  bank_.expand(call, {routed, slots, scratch.of_products}, scratch.rows, kept.bank);
}

void ExpertMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  void* const activated = shape.mode == Mode::train ? forward.space : kept.bank.ups;
  const Slots& slots = kept.routing.slots;
  bank_.project(call, {routed, slots, scratch.of_products}, kept.bank, kept.routing.gate, activated, scratch.rows);
  slots_to_rows(shape.type, routed, slots.slot, scratch.rows, hidden_, add, to);
}

}  // namespace zrt::models
