#include "models/common/spread_expert_mlp.h"

#include <algorithm>

#include "core/device.h"

namespace zrt::models {

std::vector<MlpPort> SpreadExpertMlp::ports() const {
  const Seam both{core::Axis::expert, Collective::all_to_all, Collective::all_to_all};
  const Seam there{core::Axis::expert, Collective::all_to_all, Collective::none};
  std::vector<MlpPort> all{{"picked experts", MlpPart::route, 1, dropless() ? both : there, sizeof(int32_t)},
                           {"gates", MlpPart::route, 1, both, sizeof(float)},
                           {"rows for experts", MlpPart::route, hidden_, both, 0}};
  if (dropless()) {
    all.back().used_by = picked;
    all.push_back({"rows taken", MlpPart::projection, 1, both, sizeof(int32_t)});
  }
  all.push_back({"rows of experts", MlpPart::projection, hidden_, both, 0});
  if (dropless()) all.back().used_by = static_cast<uint8_t>(taken());
  return all;
}

RoutingShape SpreadExpertMlp::here(const Shape& shape) const {
  const RoutingShape routed = router_.shape(shape);
  return {.rows = routed.slots(), .experts = experts_.number / ranks_, .capacity = routed.capacity * ranks_};
}

RoutingShape SpreadExpertMlp::by_choice(RoutingShape routed) {
  routed.rows *= routed.choices(), routed.groups = routed.chosen = 1;
  return routed;
}

void SpreadExpertMlp::tell_taken(const int32_t* number, void* to, const Shape& shape) const {
  core::copy_bytes(to, number, static_cast<uint64_t>(port_rows(shape)) * sizeof(int32_t));
}

std::byte* SpreadExpertMlp::arrived(const Call& call, size_t port, void* data) const {
  const bool rows = port == sent || port == made();
  const uint64_t element = rows ? core::dtype_size(call.shape.type) : sizeof(float);
  const int64_t width = rows ? hidden_ : 1;
  return static_cast<std::byte*>(data) + static_cast<uint64_t>(port_rows(call.shape) * width) * element;
}

double SpreadExpertMlp::flops(const Shape& shape, MlpPart part) const {
  // Experts of a rank get as many rows from all ranks as its own rows pick, if all get as many.
  const double picks = static_cast<double>(shape.rows() * experts_.choices());
  if (part == MlpPart::route) return router_.flops(shape);
  return part == MlpPart::combine ? 0 : bank_.flops(picks, part == MlpPart::projection);
}

std::vector<GemmSpec> SpreadExpertMlp::products(const Shape& shape) const {
  std::vector<GemmSpec> all = router_.products(shape);
  for (const GemmSpec& spec : bank_.products(shape, experts_.number / ranks_, shape.rows() * experts_.choices())) {
    all.push_back(spec);
  }
  return all;
}

SpreadExpertMlp::Kept SpreadExpertMlp::kept_in(BumpAllocator& layout, const Shape& shape) const {
  const RoutingShape routed = here(shape);
  const uint64_t words = static_cast<uint64_t>(routed.rows) * sizeof(int32_t);
  Kept kept{};
  lay_out_slots(kept.slots, layout, routed);
  kept.slots.slot = layout.take<int32_t>(words);
  kept.slots.wanted = layout.take<int32_t>(static_cast<uint64_t>(routed.experts) * sizeof(int32_t));
  kept.gate = layout.take<float>(words);
  kept.rows = layout.take(bank_.row_bytes(shape, routed));
  kept.bank = bank_.kept_in(layout, shape, routed);
  return kept;
}

SpreadExpertMlp::Scratch SpreadExpertMlp::scratch_in(BumpAllocator& layout, const Shape& shape) const {
  const auto choices = static_cast<uint64_t>(shape.rows() * experts_.choices());
  const RoutingShape routed = here(shape);
  Scratch scratch{};
  scratch.rows = layout.take(bank_.row_bytes(shape, routed));
  scratch.d_gate = layout.take<float>(choices * sizeof(float));
  scratch.of_products = layout.take<std::byte>(std::max(router_.scratch(shape), bank_.scratch(shape, routed)));
  return scratch;
}

Router::Tables SpreadExpertMlp::routing_in(std::byte* kept, const Shape& shape) const {
  BumpAllocator layout(kept);
  return router_.tables_in(layout, shape);
}

uint64_t SpreadExpertMlp::scratch(const Shape& shape) const {
  BumpAllocator layout;
  scratch_in(layout, shape);
  return layout.bytes();
}

uint64_t SpreadExpertMlp::kept_bytes(const Shape& shape) const {
  BumpAllocator layout;
  kept_in(layout, shape);
  return layout.bytes();
}

uint64_t SpreadExpertMlp::routed_bytes(const Shape& shape) const {
  BumpAllocator layout;
  router_.tables_in(layout, shape);
  return layout.bytes();
}

// Outside training `ups` are not needed any more and give their place.
uint64_t SpreadExpertMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train ? bank_.wide_bytes(shape, here(shape)) : 0;
}

void SpreadExpertMlp::route(const Call& call, const Forward& forward, const void* normed) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = router_.shape(shape);
  const Router::Tables tables = routing_in(forward.routed, shape);
  BumpAllocator in_scratch(forward.scratch);
  router_.forward(call, normed, tables, scratch_in(in_scratch, shape).of_products);
  const int32_t* const choice = tables.slots.choice;
  experts_to_slots(routed, choice, tables.expert, static_cast<int32_t*>(call.port(picked)));
  rows_to_slots(core::DType::f32, by_choice(routed), choice, tables.gate, 1, call.port(gates));
  rows_to_slots(shape.type, routed, choice, normed, hidden_, call.port(sent));
}

void SpreadExpertMlp::expand(const Call& call, const Forward& forward, const void* /*normed*/) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = here(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  give_slots(routed, reinterpret_cast<const int32_t*>(arrived(call, picked, call.port(picked))), kept.slots);
  core::copy_bytes(kept.gate, arrived(call, gates, call.port(gates)),
                   static_cast<uint64_t>(routed.rows) * sizeof(float));
  rows_to_slots(shape.type, routed, kept.slots.choice, arrived(call, sent, call.port(sent)), hidden_, kept.rows);
  bank_.expand(call, {routed, kept.slots, scratch.of_products}, kept.rows, kept.bank);
}

void SpreadExpertMlp::project(const Call& call, const Forward& forward, void* /*to*/, const void* /*add*/) const {
  const Shape& shape = call.shape;
  const RoutingShape routed = here(shape);
  BumpAllocator in_kept(forward.kept), in_scratch(forward.scratch);
  const Kept kept = kept_in(in_kept, shape);
  const Scratch scratch = scratch_in(in_scratch, shape);
  void* const activated = shape.mode == Mode::train ? forward.space : kept.bank.ups;
  bank_.project(call, {routed, kept.slots, scratch.of_products}, kept.bank, kept.gate, activated, scratch.rows);
  slots_to_rows(shape.type, routed, kept.slots.slot, scratch.rows, hidden_, nullptr, call.port(made()));
  if (dropless()) tell_taken(kept.slots.slot, call.port(taken()), shape);
}

void SpreadExpertMlp::combine(const Call& call, const Forward& forward, void* to, const void* add) const {
  const Router::Tables tables = routing_in(forward.routed, call.shape);
  slots_to_rows(call.shape.type, router_.shape(call.shape), tables.slots.slot, arrived(call, made(), call.port(made())),
                hidden_, add, to);
}

}  // namespace zrt::models
