#include <algorithm>
#include <vector>

#include "core/form.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "runtime/ops/aliases.h"
#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

static_assert(load_chunk % core::form_block == 0);

// Elements [begin, begin + out.size()) of a whole parameter as initialisation makes them, on whatever rank.
void initial_values(const optimizer::UnitParam& place, int expert, uint64_t seed, int64_t begin, std::span<float> out) {
  const models::Param& param = *place.param;
  if (param.init != models::Init::normal) {
    std::fill(out.begin(), out.end(), param.init == models::Init::ones ? 1.0f : 0.0f);
    return;
  }
  const core::RngKey key{seed, core::init_step, place.number_at(expert)};
  core::parallel_for(static_cast<int64_t>(out.size()), 4096, [&](int64_t from, int64_t to) {
    core::random_normals(key, static_cast<uint64_t>(begin + from), to - from, out.data() + from);
    for (int64_t i = from; i < to; ++i) out[static_cast<size_t>(i)] *= param.deviation;
  });
}

// Calls visit(parameter, element of the whole of it, part of `out`) for what lies in elements
// [begin, begin + out.size()) of a unit of a tensor rank; padding becomes zero.
template <class Visit>
void for_each_param(const optimizer::Unit& unit, int tensor_rank, int64_t begin, std::span<float> out, Visit visit) {
  const int64_t end = begin + static_cast<int64_t>(out.size());
  std::fill(out.begin(), out.end(), 0.0f);
  for (const optimizer::UnitParam& place : unit.params) {
    const int64_t from = std::max(begin, place.offset);
    const int64_t to = std::min(end, place.offset + place.param->elements());
    if (from >= to) continue;
    const std::span<float> part = out.subspan(static_cast<size_t>(from - begin));
    models::for_each_piece(
        *place.param, tensor_rank, from - place.offset, to - place.offset, [&](const models::Piece& piece) {
          if (piece.whole < 0) return;
          const int64_t at = piece.begin - (from - place.offset);
          visit(place, piece.whole, part.subspan(static_cast<size_t>(at), static_cast<size_t>(piece.count)));
        });
  }
}

// Logical fp32 values of elements [begin, begin + out.size()) of a unit.
void unit_values(const OpCall& call, const optimizer::Unit& unit, int64_t begin, std::span<float> out) {
  for_each_param(unit, call.rank.tensor, begin, out,
                 [&](const optimizer::UnitParam& place, int64_t first, std::span<float> part) {
                   const std::string name = place.param->name_at(call.rank.expert);
                   const bool anew = call.rank.begins_anew && call.rank.begins_anew(name);
                   if (call.op.kind == OpKind::load && !anew) {
                     call.rank.load(name, first, part);
                   } else {
                     initial_values(place, call.rank.expert, call.rank.seed, first, part);
                   }
                 });
}

// The first element of what the rank holds of a unit.
int64_t begin_of(const OpCall& call, const optimizer::Unit& unit, Extent held) {
  return held == Extent::full ? 0 : call.rank.layout->mesh.place(unit.shard_axes, call.rank.number) * unit.shard;
}

// Elements [first, first + out.size()) of what the rank holds of a state, as the checkpoint has them.
void state_values(const OpCall& call, const optimizer::Unit& unit, const optimizer::UnitState& kind, int64_t first,
                  std::span<float> out) {
  if (kind.sharded) {
    return for_each_param(unit, call.rank.tensor, begin_of(call, unit, unit.held.states) + first, out,
                          [&](const optimizer::UnitParam& place, int64_t begin, std::span<float> part) {
                            call.rank.load(state_name(kind.kind, place.param->name_at(call.rank.expert)), begin, part);
                          });
  }
  std::fill(out.begin(), out.end(), 0.0f);
  const int64_t end = first + static_cast<int64_t>(out.size());
  for (const optimizer::StateTensor& tensor : kind.tensors) {
    const int64_t from = std::max(first, tensor.offset), to = std::min(end, tensor.offset + tensor.elements());
    if (from >= to) continue;
    call.rank.load(state_name(kind.kind, tensor.param->param->name_at(call.rank.expert)), from - tensor.offset,
                   out.subspan(static_cast<size_t>(from - first), static_cast<size_t>(to - from)));
  }
}

// True if the elements become an alias on the NVMe tier, so that filling them is useless.
bool is_alias(const OpCall& call, Role role, size_t nth, core::Form form, int64_t first, int64_t count) {
  const Aliases* aliases = call.rank.aliases.get();
  if (!aliases) return false;
  const StateBuffers& state = aliases->state();
  const uint32_t u = call.op.units[0];
  const BufferId buffer = role == Role::weight   ? state.weight[u]
                          : role == Role::master ? state.master[u]
                                                 : state.states[u][nth];
  return aliases->cover(buffer, form, first, count);
}

// States start at zero, or go on as they were.
void init_states(const OpCall& call, const optimizer::Unit& unit) {
  const Layout& layout = *call.rank.layout;
  const bool load = call.op.kind == OpKind::load && call.rank.loads_states;
  const auto kinds = layout.optimizer->states(unit);
  for (size_t k = 0; const Access* access = call.find(Role::state, k); ++k) {
    const optimizer::UnitState& kind = kinds[k];
    core::fill_bytes(call.address(*access), 0, kind.bytes_of(unit));  // zero in every form
    if (!load) continue;
    const int64_t count = kind.held_of(unit);
    std::vector<float> values;
    std::vector<std::byte> formed;
    for (int64_t done = 0; done < count; done += load_chunk) {
      const int64_t chunk = std::min(load_chunk, count - done);
      if (is_alias(call, Role::state, k, kind.form, done, chunk)) continue;
      values.resize(static_cast<size_t>(chunk));
      state_values(call, unit, kind, done, values);
      formed.resize(core::form_bytes(kind.form, static_cast<int64_t>(values.size())));
      core::write_form(kind.form, values.data(), static_cast<int64_t>(values.size()), formed.data());
      core::copy_bytes(call.address(*access) + core::form_bytes(kind.form, done), formed.data(), formed.size());
    }
  }
}

void write_values(std::span<const float> values, core::Form form, std::byte* target) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> formed;
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  if (form != core::Form::f32) {
    formed.resize(core::form_bytes(form, count));
    core::write_form(form, values.data(), count, formed.data());
    from = formed.data();
  }
  core::copy_bytes(target, from, core::form_bytes(form, count));
}

void run_init(const OpCall& call) {
  if (call.op.units.empty()) {
    Control control;
    control.inputs.seed = call.rank.seed;
    control.persistent.loss_scale = optimizer::initial_loss_scale(call.rank.loss_scale);
    core::copy_bytes(call.at(Role::control), &control, sizeof(control));
    return;
  }
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  auto range = [&](Extent extent) { return std::pair{begin_of(call, unit, extent), unit.extent(extent)}; };
  // Values are made once per chunk for the weight and the master where both hold the same elements.
  struct Target {
    std::byte* data;
    core::Form form;
    Role role;
  };
  auto fill = [&](Extent extent, std::vector<Target> targets) {
    const auto [begin, count] = range(extent);
    std::vector<float> values;
    for (int64_t done = 0; done < count; done += load_chunk) {
      const int64_t chunk = std::min(load_chunk, count - done);
      values.resize(static_cast<size_t>(chunk));
      const bool needed = !std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
        return is_alias(call, target.role, 0, target.form, done, chunk);
      });
      if (needed) {
        unit_values(call, unit, begin + done, values);
      } else {
        std::fill(values.begin(), values.end(), 0.0f);
      }
      for (const Target& target : targets) {
        write_values(values, target.form, target.data + core::form_bytes(target.form, done));
      }
    }
  };
  const Target weight{call.at(Role::weight), layout.weight_form(unit), Role::weight},
      master{call.at(Role::master), core::Form::f32, Role::master};
  const Extent weights = unit.held.weights, states = unit.held.states;
  if (!master.data) {
    fill(weights, {weight});
  } else if (weights == states) {
    fill(weights, {weight, master});
  } else {
    fill(weights, {weight});
    fill(states, {master});
  }
  init_states(call, unit);
  if (const Access* grad = call.find(Role::grad, 0)) {
    const auto bytes = static_cast<size_t>(unit.extent(unit.held.grads)) * core::dtype_size(layout.grad);
    core::fill_bytes(call.address(*grad), 0, bytes);
  }
}

OpSpec init_row(OpKind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .phases = {name},
          .operands = {{Role::control, Count::optional, may_write},
                       {Role::weight, Count::some_units, may_write},
                       {Role::master, Count::some_units, may_write},
                       {Role::state, Count::any, may_write},
                       {Role::grad, Count::optional, may_write}},
          .run = run_init,
          .cost = touched_bytes_cost,
          .works = true,
          .needs_host = true,
          .site = Site::resident};
}

}  // namespace

std::vector<OpSpec> init_ops() {
  return {init_row(OpKind::init, "init"), init_row(OpKind::load, "load")};
}

}  // namespace zrt::runtime
