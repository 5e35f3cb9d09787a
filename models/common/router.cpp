#include "models/common/router.h"

#include <algorithm>
#include <cmath>

#include "core/device.h"
#include "models/kernels/gemm.h"

namespace zrt::models {

int64_t Router::capacity(const Shape& shape) const {
  if (experts_.capacity_factor == 0 || shape.mode != Mode::train) return 0;
  const auto choices = static_cast<double>(experts_.choices() * shape.rows());
  const double share = experts_.capacity_factor * choices / static_cast<double>(experts_.number);
  // A product of decimals may be a rounding above a whole number; and a row picks an expert once.
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(share * (1 - 1e-12))), 1, shape.rows());
}

RoutingShape Router::shape(const Shape& shape) const {
  RoutingShape routed{shape.rows(),   experts_.number, experts_.prototypes,
                      experts_.top_k, capacity(shape), experts_.normalised};
  if (ranks_ == 1) return routed;
  const int64_t each = experts_.number / ranks_;
  routed.ranks = ranks_;
  routed.room = routed.capacity > 0 ? each * routed.capacity : std::min(experts_.choices(), each) * shape.rows();
  return routed;
}

GemmSpec Router::forward_spec(const Shape& shape) const {
  GemmSpec spec = Linear{.in = hidden_, .out = experts_.number}.forward_spec(shape);
  spec.c = DType::f32, spec.fp8 = false;
  return spec;
}

uint64_t Router::scratch(const Shape& shape) const {
  return std::max(find_gemm(forward_spec(shape)).workspace_bytes(), linear().backward_scratch(shape));
}

Router::Tables Router::tables_in(BumpAllocator& layout, const Shape& shape) const {
  const auto rows = static_cast<uint64_t>(shape.rows());
  const uint64_t E = static_cast<uint64_t>(experts_.number), choices = rows * static_cast<uint64_t>(experts_.choices());
  Tables tables{};
  lay_out_slots(tables.slots, layout, this->shape(shape));
  tables.slots.slot = layout.take<int32_t>(choices * sizeof(int32_t));
  tables.slots.wanted = layout.take<int32_t>(E * sizeof(int32_t));
  tables.expert = layout.take<int32_t>(choices * sizeof(int32_t));
  tables.probability = layout.take<float>(rows * E * sizeof(float));
  tables.logs = layout.take<float>(rows * static_cast<uint64_t>(experts_.prototypes) * sizeof(float));
  tables.gate = layout.take<float>(choices * sizeof(float));
  return tables;
}

void Router::forward(const Call& call, const void* normed, const Tables& tables, std::byte* scratch) const {
  const RoutingShape routed = shape(call.shape);
  find_gemm(forward_spec(call.shape)).run(normed, call.weights[weight_], tables.probability, nullptr, scratch);
  route(routed, tables.probability, tables.logs, tables.expert, tables.gate);
  give_slots(routed, tables.expert, tables.slots);
}

void Router::logits_gradient(const Call& call, const Tables& tables, const float* d_gate, void* d_logits) const {
  const RoutingShape routed = shape(call.shape);
  // Ranks that share experts make parts of a sum: the losses of the router belong into one of them.
  const double share = call.tensor_rank == 0 ? static_cast<double>(call.router_scale) : 0;
  route_backward(call.shape.type, routed,
                 {.probability = tables.probability,
                  .logs = tables.logs,
                  .gate = tables.gate,
                  .d_gate = d_gate,
                  .expert = tables.expert,
                  .slot = tables.slots.slot,
                  .wanted = tables.slots.wanted,
                  .balance = experts_.aux_loss * share,
                  .z = experts_.z_loss * share},
                 d_logits);
  if (call.router == nullptr) return;
  tally_routing(routed, tables.probability, tables.logs, tables.slots.wanted, tables.slots.counts, call.router,
                call.expert_loads);
}

void lay_out_slots(Slots& slots, BumpAllocator& layout, const RoutingShape& shape) {
  const auto E = static_cast<uint64_t>(shape.experts) * sizeof(int32_t);
  slots.choice = layout.take<int32_t>(static_cast<uint64_t>(shape.slots()) * sizeof(int32_t));
  slots.starts = layout.take<int32_t>(E), slots.counts = layout.take<int32_t>(E);
}

void copy_slots(const Slots& from, const Slots& to, const RoutingShape& shape) {
  const auto E = static_cast<uint64_t>(shape.experts) * sizeof(int32_t);
  core::copy_bytes(to.choice, from.choice, static_cast<uint64_t>(shape.slots()) * sizeof(int32_t));
  core::copy_bytes(to.starts, from.starts, E);
  core::copy_bytes(to.counts, from.counts, E);
}

}  // namespace zrt::models
