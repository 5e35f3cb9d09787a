#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "core/philox.h"
#include "runtime/ops.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

// Elements [begin, begin + out.size()) of a parameter as initialisation makes them, on whatever rank.
void initial_values(const optimizer::UnitParam& place, uint64_t seed, int64_t begin, std::span<float> out) {
  const models::Param& param = *place.param;
  if (param.init != models::Init::normal) {
    std::fill(out.begin(), out.end(), param.init == models::Init::ones ? 1.0f : 0.0f);
    return;
  }
  const core::RngKey key{seed, core::init_step, place.number};
  core::parallel_for(static_cast<int64_t>(out.size()), 4096, [&](int64_t from, int64_t to) {
    core::random_normals(key, static_cast<uint64_t>(begin + from), to - from, out.data() + from);
    for (int64_t i = from; i < to; ++i) out[static_cast<size_t>(i)] *= param.deviation;
  });
}

// Logical fp32 values of elements [begin, begin + out.size()) of a unit; padding is zero.
void unit_values(const OpCall& call, const optimizer::Unit& unit, int64_t begin, std::span<float> out) {
  const int64_t end = begin + static_cast<int64_t>(out.size());
  std::fill(out.begin(), out.end(), 0.0f);
  for (const optimizer::UnitParam& place : unit.params) {
    const int64_t from = std::max(begin, place.offset);
    const int64_t to = std::min(end, place.offset + place.param->elements());
    if (from >= to) continue;
    const std::span<float> part = out.subspan(static_cast<size_t>(from - begin), static_cast<size_t>(to - from));
    if (call.op.kind == OpKind::load) {
      call.rank.load(*place.param, from - place.offset, part);
    } else {
      initial_values(place, call.rank.seed, from - place.offset, part);
    }
  }
}

void round_into(std::span<const float> values, core::DType type, std::byte* target) {
  if (type == core::DType::f32) {
    std::memcpy(target, values.data(), values.size_bytes());
    return;
  }
  auto* out = reinterpret_cast<uint16_t*>(target);
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = type == core::DType::bf16 ? core::to_bf16(values[i]).bits : core::to_f16(values[i]).bits;
  }
}

}  // namespace

void run_init(const OpCall& call) {
  if (call.op.units.empty()) {
    auto* control = new (call.at(Role::control)) Control;
    control->inputs.seed = call.rank.seed;
    control->persistent.loss_scale = optimizer::initial_loss_scale(call.rank.loss_scale);
    return;
  }
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  auto range = [&](Extent extent) {
    const int64_t begin = extent == Extent::full ? 0 : call.rank.number * unit.shard;
    return std::pair{begin, layout.extent(unit, extent)};
  };
  // Values are made once per chunk for the weight and the master where both hold the same elements.
  struct Target {
    std::byte* data;
    core::DType type;
  };
  auto fill = [&](Extent extent, std::vector<Target> targets) {
    const auto [begin, count] = range(extent);
    constexpr int64_t chunk = 1 << 16;
    std::vector<float> values;
    for (int64_t done = 0; done < count; done += chunk) {
      values.resize(static_cast<size_t>(std::min(chunk, count - done)));
      unit_values(call, unit, begin + done, values);
      for (const Target& target : targets) {
        round_into(values, target.type, target.data + static_cast<size_t>(done) * core::dtype_size(target.type));
      }
    }
  };
  const Target weight{call.at(Role::weight), layout.compute}, master{call.at(Role::master), core::DType::f32};
  if (!master.data) {
    fill(layout.zero.weights, {weight});
  } else if (layout.zero.weights == layout.zero.states) {
    fill(layout.zero.weights, {weight, master});
  } else {
    fill(layout.zero.weights, {weight});
    fill(layout.zero.states, {master});
  }
  for (size_t k = 0; const Access* state = call.find(Role::state, k); ++k) {
    std::memset(call.address(*state), 0, call.bytes(*state));
  }
}

void run_export(const OpCall& call) {
  if (!call.rank.save) return;
  const optimizer::Unit& unit = call.unit(0);
  call.rank.save(unit, call.as<float>(Role::full_state));
}

}  // namespace zrt::runtime
