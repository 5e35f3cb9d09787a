#include "core/device.h"
#include "models/common/expert_mlp.h"
#include "models/kernels/gemm.h"

namespace zrt::models {

// hidden: gradients of what the nonlinearity reads, of logits, and between the halves the slots. projection: what the
// second product read. In a whole backward that lies where the gradients of `ups` come to lie, which are made when it
// is not needed any more.
uint64_t ExpertMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  if (part == MlpPart::projection) return half == Half::both ? 0 : wide_bytes(shape);
  BumpAllocator layout;
  gradients_in(layout, shape, half);
  return layout.bytes();
}

void ExpertMlp::router_backward(const Call& call, const Kept& kept, const float* d_gate, void* d_logits) const {
  // Ranks that share experts make parts of a sum: the losses of the router belong into one of them.
  const double share = call.tensor_rank == 0 ? static_cast<double>(call.loss_scale) : 0;
  route_backward(call.shape.type, routing(call.shape),
                 {.probability = kept.probability,
                  .logs = kept.logs,
                  .gate = kept.gate,
                  .d_gate = d_gate,
                  .expert = kept.expert,
                  .slot = kept.slots.slot,
                  .wanted = kept.slots.wanted,
                  .balance = experts_.aux_loss * share,
                  .z = experts_.z_loss * share},
                 d_logits);
  if (call.router == nullptr) return;
  tally_routing(routing(call.shape), kept.probability, kept.logs, kept.slots.wanted, kept.slots.counts, call.router);
}

void ExpertMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = routing(shape);
  const int64_t F = parts_.down.linear.in;
  const bool inputs = call.half != Half::weight, whole = call.half == Half::both;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const Slots& slots = inputs ? kept.slots : d.slots;
  void* const activated = whole ? d.ups : backward.projection;
  const ExpertProduct down = product(shape, parts_.down.linear, slots);

  rows_to_slots(shape.type, routed, slots.choice, d_projected, hidden_, scratch.rows);
  if (inputs) {
    experts_input_gradient(down, scratch.rows, weights(call, parts_.down), false, d.gates, scratch.of_products);
    activate(shape, kept, activated);
    apply_gates_backward(shape.type, routed, slots.choice, kept.gate, F, activated, d.gates, scratch.d_gate);
  }
  if (call.half != Half::input) {
    experts_weight_gradients(down, activated, scratch.rows, gradients(call, parts_.down), scratch.of_products);
  }
  if (!inputs) return;
  const int64_t n = routed.slots() * F;
  if (kind_ == Kind::swiglu) {
    swiglu_backward(shape.type, kept.gates, kept.ups, d.gates, d.ups, n);
  } else {
    gelu_backward(shape.type, kept.ups, d.gates, d.ups, n);  // the second is GELU's output, which nobody needs
  }
  router_backward(call, kept, scratch.d_gate, d.logits);
  if (whole) return;
  const uint64_t E = static_cast<uint64_t>(experts_.number) * sizeof(int32_t);
  core::copy_bytes(d.slots.choice, slots.choice, static_cast<uint64_t>(routed.slots()) * sizeof(int32_t));
  core::copy_bytes(d.slots.starts, slots.starts, E);
  core::copy_bytes(d.slots.counts, slots.counts, E);
}

void ExpertMlp::backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = routing(shape);
  const bool inputs = call.half != Half::weight, whole = call.half == Half::both;
  BumpAllocator in_kept(backward.kept), in_hidden(backward.hidden), in_scratch(backward.scratch);
  const Kept kept = inputs ? kept_in(in_kept, shape) : Kept{};
  const Gradients d = gradients_in(in_hidden, shape, call.half);
  const Scratch scratch = scratch_in(in_scratch, shape);
  const Slots& slots = inputs ? kept.slots : d.slots;
  const Linear router = router_linear();
  const bool gated = kind_ == Kind::swiglu;
  void* const d_up = gated ? d.ups : d.gates;

  if (whole || !inputs) {
    rows_to_slots(shape.type, routed, slots.choice, normed, hidden_, scratch.rows);
    const auto add = [&](const Product& of, const void* dy) {
      experts_weight_gradients(product(shape, of.linear, slots), scratch.rows, dy, gradients(call, of),
                               scratch.of_products);
    };
    if (gated) add(parts_.gate, d.gates);
    add(parts_.up, d_up);
    router.weight_gradients(call, parts_.router, normed, d.logits, scratch.of_products);
  }
  if (!inputs) return;
  const auto back = [&](const Product& of, const void* dy, bool adds) {
    experts_input_gradient(product(shape, of.linear, slots), dy, weights(call, of), adds, scratch.rows,
                           scratch.of_products);
  };
  if (gated) back(parts_.gate, d.gates, false);
  back(parts_.up, d_up, gated);
  slots_to_rows(shape.type, routed, slots.slot, scratch.rows, hidden_, nullptr, d_normed);
  router.input_gradient(call, parts_.router, d.logits, d_normed, scratch.of_products);
}

}  // namespace zrt::models
