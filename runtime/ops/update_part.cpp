#include "runtime/ops/update_part.h"

#include "runtime/program/control.h"

namespace zrt::runtime {

using optimizer::Extent;

UpdatePart::UpdatePart(const OpCall& call, Extent extent) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  part_.unit = &unit;
  part_.tensor_rank = call.rank.tensor, part_.expert_rank = call.rank.expert;
  part_.begin = extent == Extent::shard ? layout.mesh.place(unit.shard_axes, call.rank.number) * unit.shard : 0;
  part_.count = unit.extent(extent);
  // Finds `begin` in a buffer, which holds the whole unit or this rank's shard alone. Copies for an update hold the
  // shard where the state's resident buffer holds all.
  auto enter_bytes = [&](const Access* access, uint64_t all, uint64_t skipped) -> std::byte* {
    if (!access) return nullptr;
    return call.address(*access) + (call.bytes(*access) >= all ? skipped : 0);
  };
  auto enter = [&](const Access* access, core::DType type) {
    const auto size = core::dtype_size(type);
    return enter_bytes(access, static_cast<uint64_t>(unit.elements) * size, static_cast<uint64_t>(part_.begin) * size);
  };
  std::byte* weight = enter(call.find(Role::weight), layout.compute);
  std::byte* master = enter(call.find(Role::master), core::DType::f32);
  const bool weight_only = layout.compute == core::DType::f32;  // which is the master then
  part_.master = reinterpret_cast<float*>(weight_only ? weight : master);
  part_.weight = weight_only ? nullptr : weight;
  part_.weight_type = layout.compute;
  part_.grad = enter(call.find(Role::grad), layout.grad);
  part_.grad_type = layout.grad;
  part_.work = call.at(Role::work);
  part_.proposal = reinterpret_cast<float*>(enter(call.find(Role::proposal), core::DType::f32));
  const auto kinds = layout.optimizer->states(unit);
  for (size_t k = 0; const Access* state = call.find(Role::state, k); ++k) {
    const core::Form form = kinds[k].form;
    std::byte* at = call.address(*state);
    if (kinds[k].sharded) {
      at = enter_bytes(state, core::form_bytes(form, unit.elements), core::form_bytes(form, part_.begin));
    }
    states_.push_back(reinterpret_cast<float*>(at));
  }
  part_.states = states_;
}

const optimizer::Decision& decision_of(const OpCall& call) {
  return call.as<Control>(Role::control)->decision[call.rank.layout->optimizer->member_of(call.unit(0))];
}

}  // namespace zrt::runtime
