#include "models/common/expert_mlp.h"

#include <algorithm>
#include <cmath>

#include "models/kernels/gemm.h"

namespace zrt::models {

ExpertMlp::ExpertMlp(const Experts& experts, int64_t hidden, const Parts& parts, Kind kind)
    : experts_(experts), hidden_(hidden), parts_(parts), kind_(kind) {}

int64_t ExpertMlp::capacity(const Shape& shape) const {
  if (experts_.capacity_factor == 0 || shape.mode != Mode::train) return 0;
  const auto choices = static_cast<double>(experts_.choices() * shape.rows());
  const double share = experts_.capacity_factor * choices / static_cast<double>(experts_.number);
  // A product of decimals may be a rounding above a whole number; and a row picks an expert once.
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(share * (1 - 1e-12))), 1, shape.rows());
}

RoutingShape ExpertMlp::routing(const Shape& shape) const {
  return {shape.rows(), experts_.number, experts_.prototypes, experts_.top_k, capacity(shape), experts_.normalised};
}

ExpertProduct ExpertMlp::product(const Shape& shape, const Linear& linear, const Slots& slots) const {
  return {experts_.number, routing(shape).slots(), linear.in,    linear.out,
          shape.type,      shape.grad_type,        slots.starts, slots.counts};
}

ExpertWeights ExpertMlp::weights(const Call& call, const Product& of) const {
  return {call.weights, of.weight, kind_ == Kind::swiglu ? 3u : 2u};
}

ExpertGradients ExpertMlp::gradients(const Call& call, const Product& of) const {
  return {call.grads, call.accumulate, call.shape.grad_type, of.weight, kind_ == Kind::swiglu ? 3u : 2u};
}

GemmSpec ExpertMlp::router_forward(const Shape& shape) const {
  GemmSpec spec = Linear{.in = hidden_, .out = experts_.number}.forward_spec(shape);
  spec.c = DType::f32, spec.fp8 = false;
  return spec;
}

double ExpertMlp::flops(const Shape& shape, MlpPart part) const {
  const auto rows = static_cast<double>(shape.rows()), C = static_cast<double>(hidden_);
  const auto F = static_cast<double>(parts_.down.linear.in);
  const double one = 2 * rows * static_cast<double>(experts_.choices()) * C * F;
  if (part == MlpPart::projection) return one;
  return (kind_ == Kind::swiglu ? 2 : 1) * one + 2 * rows * C * static_cast<double>(experts_.number);
}

std::vector<GemmSpec> ExpertMlp::products(const Shape& shape) const {
  std::vector<GemmSpec> all = Linear{.in = hidden_, .out = experts_.number}.products(shape);
  const int64_t picks = shape.rows() * experts_.choices(), E = experts_.number;
  for (int64_t e = 0; e < E; ++e) {
    Shape share = shape;  // of an expert, if all get as much
    share.B = 1, share.mode = Mode::eval, share.T = picks * (e + 1) / E - picks * e / E;
    if (share.T == 0) continue;
    for (const Product* of : {&parts_.gate, &parts_.up, &parts_.down}) {
      if (of == &parts_.gate && kind_ == Kind::gelu) continue;
      for (const GemmSpec& spec : of->linear.products(share)) all.push_back(spec);
    }
  }
  return all;
}

uint64_t ExpertMlp::wide_bytes(const Shape& shape) const {
  return static_cast<uint64_t>(routing(shape).slots() * parts_.down.linear.in) * core::dtype_size(shape.type);
}

void ExpertMlp::lay_out_slots(Slots& slots, BumpAllocator& layout, const Shape& shape) const {
  const auto E = static_cast<uint64_t>(experts_.number) * sizeof(int32_t);
  slots.choice = layout.take<int32_t>(static_cast<uint64_t>(routing(shape).slots()) * sizeof(int32_t));
  slots.starts = layout.take<int32_t>(E), slots.counts = layout.take<int32_t>(E);
}

ExpertMlp::Kept ExpertMlp::kept_in(BumpAllocator& layout, const Shape& shape) const {
  const auto rows = static_cast<uint64_t>(shape.rows());
  const uint64_t E = static_cast<uint64_t>(experts_.number), choices = rows * static_cast<uint64_t>(experts_.choices());
  Kept kept{};
  lay_out_slots(kept.slots, layout, shape);
  kept.slots.slot = layout.take<int32_t>(choices * sizeof(int32_t));
  kept.slots.wanted = layout.take<int32_t>(E * sizeof(int32_t));
  kept.expert = layout.take<int32_t>(choices * sizeof(int32_t));
  kept.probability = layout.take<float>(rows * E * sizeof(float));
  kept.logs = layout.take<float>(rows * static_cast<uint64_t>(experts_.prototypes) * sizeof(float));
  kept.gate = layout.take<float>(choices * sizeof(float));
  if (kind_ == Kind::swiglu) kept.gates = layout.take(wide_bytes(shape));
  kept.ups = layout.take(wide_bytes(shape));
  return kept;
}

ExpertMlp::Gradients ExpertMlp::gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const {
  Gradients d{};
  d.gates = layout.take(wide_bytes(shape)), d.ups = layout.take(wide_bytes(shape));
  d.logits = layout.take(bytes_of_rows(shape, experts_.number));
  if (half != Half::both) lay_out_slots(d.slots, layout, shape);
  return d;
}

ExpertMlp::Scratch ExpertMlp::scratch_in(BumpAllocator& layout, const Shape& shape) const {
  const auto choices = static_cast<uint64_t>(shape.rows() * experts_.choices());
  Scratch scratch{};
  scratch.rows = layout.take(static_cast<uint64_t>(routing(shape).slots() * hidden_) * core::dtype_size(shape.type));
  scratch.d_gate = layout.take<float>(choices * sizeof(float));
  const Linear router = router_linear();
  uint64_t bytes = std::max(find_gemm(router_forward(shape)).workspace_bytes(), router.backward_scratch(shape));
  for (const Linear& linear : {parts_.up.linear, parts_.down.linear}) {
    bytes = std::max(bytes, experts_workspace(product(shape, linear, {})));
  }
  scratch.of_products = layout.take<std::byte>(bytes);
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
  return shape.mode == Mode::train ? wide_bytes(shape) : 0;
}

void ExpertMlp::activate(const Shape& shape, const Kept& kept, void* y) const {
  const int64_t n = routing(shape).slots() * parts_.down.linear.in;
  if (kind_ == Kind::swiglu) return swiglu(shape.type, kept.gates, kept.ups, y, n);
  gelu(shape.type, kept.ups, y, n);
}

void ExpertMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = routing(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  find_gemm(router_forward(shape))
      .run(normed, call.weights[parts_.router], kept.probability, nullptr, scratch.of_products);
  route(routed, kept.probability, kept.logs, kept.expert, kept.gate);
  give_slots(routed, kept.expert, kept.slots);
  rows_to_slots(shape.type, routed, kept.slots.choice, normed, hidden_, scratch.rows);
  const auto multiply = [&](const Product& of, void* y) {
    experts_forward(product(shape, of.linear, kept.slots), scratch.rows, weights(call, of), y, scratch.of_products);
  };
  if (kind_ == Kind::swiglu) multiply(parts_.gate, kept.gates);
  multiply(parts_.up, kept.ups);
}

void ExpertMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = routing(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  void* const activated = shape.mode == Mode::train ? forward.space : kept.ups;
  activate(shape, kept, activated);
  apply_gates(shape.type, routed, kept.slots.choice, kept.gate, parts_.down.linear.in, activated);
  experts_forward(product(shape, parts_.down.linear, kept.slots), activated, weights(call, parts_.down), scratch.rows,
                  scratch.of_products);
  slots_to_rows(shape.type, routed, kept.slots.slot, scratch.rows, hidden_, add, to);
}

}  // namespace zrt::models
