#include "models/common/expert_mlp.h"

namespace zrt::models {

// hidden: gradients of what the nonlinearity reads, of logits, and between the halves the slots. projection: what the
// second product read. In a whole backward that lies where the gradients of `ups` come to lie, which are made when it
// is not needed any more.
uint64_t ExpertMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  BumpAllocator layout;
  if (part == MlpPart::hidden) gradients_in(layout, shape, half);
  if (part == MlpPart::projection && half != Half::both) return bank_.wide_bytes(shape, router_.shape(shape));
  return layout.bytes();
}

void ExpertMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  const bool inputs = call.half != Half::weight, whole = call.half == Half::both;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const Slots& slots = inputs ? kept.routing.slots : d.slots;

  rows_to_slots(shape.type, routed, slots.choice, d_projected, hidden_, scratch.rows);
  bank_.backward_projection(call, {routed, slots, scratch.of_products}, kept.bank, kept.routing.gate, scratch.rows,
                            d.bank, whole ? d.bank.ups : backward.projection, scratch.d_gate);
  if (!inputs) return;
  router_.logits_gradient(call, kept.routing, scratch.d_gate, d.logits);
  if (!whole) copy_slots(slots, d.slots, routed);
}

void ExpertMlp::backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  const bool inputs = call.half != Half::weight, whole = call.half == Half::both;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const Slots& slots = inputs ? kept.routing.slots : d.slots;
  const ExpertBank::Rows rows{routed, slots, scratch.of_products};

  if (whole || !inputs) {
    rows_to_slots(shape.type, routed, slots.choice, normed, hidden_, scratch.rows);
    bank_.weight_gradients(call, rows, scratch.rows, d.bank);
    router_.weight_gradient(call, normed, d.logits, scratch.of_products);
  }
  if (!inputs) return;
  bank_.input_gradient(call, rows, d.bank, scratch.rows);
  slots_to_rows(shape.type, routed, slots.slot, scratch.rows, hidden_, nullptr, d_normed);
  router_.input_gradient(call, d.logits, d_normed, scratch.of_products);
}

}  // namespace zrt::models
