#include "core/device.h"
#include "models/common/spread_expert_mlp.h"

namespace zrt::models {

SpreadExpertMlp::Gradients SpreadExpertMlp::gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const {
  const RoutingShape routed = here(shape);
  Gradients d{};
  d.bank = bank_.gradients_in(layout, shape, routed);
  if (half == Half::both) return d;
  lay_out_slots(d.slots, layout, routed);
  d.rows = layout.take(bank_.row_bytes(shape, routed));
  return d;
}

SpreadExpertMlp::Projected SpreadExpertMlp::projected_in(BumpAllocator& layout, const Shape& shape) const {
  const RoutingShape routed = here(shape);
  Projected projected{};
  projected.activated = layout.take(bank_.wide_bytes(shape, routed));
  projected.rows = layout.take(bank_.row_bytes(shape, routed));
  return projected;
}

// route: gradients of logits. hidden: those of what the nonlinearity reads, and between the halves the slots and the
// rows that have come. projection: between the halves what the second product read and the gradient of what it made;
// in a whole backward the first lies where the gradients of `ups` come to lie.
uint64_t SpreadExpertMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  BumpAllocator layout;
  if (part == MlpPart::route) layout.take(bytes_of_rows(shape, experts_.number));
  if (part == MlpPart::hidden) gradients_in(layout, shape, half);
  if (part == MlpPart::projection && half != Half::both) projected_in(layout, shape);
  return layout.bytes();
}

void SpreadExpertMlp::backward_combine(const Call& call, const Backward& backward, const void* d_projected) const {
  if (call.half == Half::weight) return;
  const Router::Tables tables = routing_in(backward.routed, call.shape);
  rows_to_slots(call.shape.type, router_.shape(call.shape), tables.slots.choice, d_projected, hidden_,
                call.d_port(made()));
  if (dropless()) tell_taken(tables.slots.choice, call.d_port(taken()), call.shape);
}

void SpreadExpertMlp::backward_projection(const Call& call, const Backward& backward,
                                          const void* /*d_projected*/) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = here(shape);
  const bool inputs = call.half != Half::weight, whole = call.half == Half::both;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch),
      in_projection(backward.projection);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const Projected held = whole ? Projected{d.bank.ups, scratch.rows} : projected_in(in_projection, shape);
  const Slots& slots = inputs ? kept.slots : d.slots;
  auto* const d_gate = static_cast<float*>(call.d_port(gates));
  if (inputs) {
    const void* const come = arrived(call, made(), call.d_port(made()));
    rows_to_slots(shape.type, routed, slots.choice, come, hidden_, held.rows);
    core::fill_bytes(d_gate, 0, static_cast<uint64_t>(routed.rows) * sizeof(float));
  }
  bank_.backward_projection(call, {routed, slots, scratch.of_products}, kept.bank, kept.gate, held.rows, d.bank,
                            held.activated, d_gate);
  if (whole || !inputs) return;
  copy_slots(slots, d.slots, routed);
  core::copy_bytes(d.rows, kept.rows, bank_.row_bytes(shape, routed));
}

void SpreadExpertMlp::backward_hidden(const Call& call, const Backward& backward, const void* /*normed*/,
                                      void* /*d_normed*/) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = here(shape);
  const bool inputs = call.half != Half::weight;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const ExpertBank::Rows rows{routed, inputs ? kept.slots : d.slots, scratch.of_products};
  if (call.half != Half::input) bank_.weight_gradients(call, rows, inputs ? kept.rows : d.rows, d.bank);
  if (!inputs) return;
  bank_.input_gradient(call, rows, d.bank, scratch.rows);
  slots_to_rows(shape.type, routed, kept.slots.slot, scratch.rows, hidden_, nullptr, call.d_port(sent));
  if (dropless()) tell_taken(kept.slots.slot, call.d_port(picked), shape);
}

void SpreadExpertMlp::backward_route(const Call& call, const Backward& backward, const void* normed,
                                     void* d_normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  BumpAllocator in_scratch(backward.scratch);
  const Scratch scratch = scratch_in(in_scratch, shape);
  void* const d_logits = backward.route;
  const bool inputs = call.half != Half::weight;
  const Router::Tables tables = inputs ? routing_in(backward.routed, shape) : Router::Tables{};
  if (inputs) {
    slots_to_rows(core::DType::f32, by_choice(routed), tables.slots.slot, arrived(call, gates, call.d_port(gates)), 1,
                  nullptr, scratch.d_gate);
    router_.logits_gradient(call, tables, scratch.d_gate, d_logits);
  }
  if (call.half != Half::input) router_.weight_gradient(call, normed, d_logits, scratch.of_products);
  if (!inputs) return;
  slots_to_rows(shape.type, routed, tables.slots.slot, arrived(call, sent, call.d_port(sent)), hidden_, nullptr,
                d_normed);
  router_.input_gradient(call, d_logits, d_normed, scratch.of_products);
}

}  // namespace zrt::models
