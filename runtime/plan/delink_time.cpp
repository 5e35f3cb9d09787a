#include "runtime/plan/delink_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "offload/block_file.h"
#include "runtime/ops/aliases.h"
#include "runtime/ops/rank.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

constexpr uint64_t value_bytes = sizeof(float);  // in a checkpoint, whatever the form in a tier

uint64_t saved_bytes(const Layout& layout) {
  int64_t elements = 0;
  for (const optimizer::Unit& unit : layout.units.units) {
    if (unit.counted_elsewhere) continue;
    for (const optimizer::UnitParam& place : unit.params) elements += place.param->elements_of_all();
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
      for (const optimizer::StateTensor& tensor : kind.tensors) elements += tensor.elements();
    }
  }
  return static_cast<uint64_t>(elements) * value_bytes;
}

// Finds what a rank neither reads nor writes, because another layer's is equal (runtime/ops/aliases.h).
Aliases aliases_of(const StagePlan& stage, const models::Sharing& sharing) {
  const Layout& layout = stage.compiled.layout;
  std::map<std::string, std::string> origins;  // of weights and states that share one
  for (const optimizer::Unit& unit : layout.units.units) {
    for (const optimizer::UnitParam& place : unit.params) {
      const std::string &name = place.param->name, kept = models::shared_name(sharing, name);
      origins[name] = kept;
      for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
        origins[state_name(kind.kind, name)] = state_name(kind.kind, kept);
      }
    }
  }
  const auto origin = [&](const std::string& tensor) { return origins.at(tensor); };
  return {
      stage.compiled.set, layout, stage.compiled.state, stage.first, origin, true, offload::BlockFileOptions{}.piece};
}

// Counts what the op `load` reads (runtime/ops/init.cpp): once where weights and masters are of the same elements.
uint64_t loaded_bytes(const StagePlan& stage, const Aliases& aliases) {
  const Layout& layout = stage.compiled.layout;
  const StateBuffers& state = stage.compiled.state;
  int64_t elements = 0;
  struct Target {
    BufferId buffer;
    core::Form form;
  };
  const auto read = [&](int64_t count, std::initializer_list<Target> targets) {
    for (int64_t done = 0; done < count; done += load_chunk) {
      const int64_t chunk = std::min(load_chunk, count - done);
      const bool needed = !std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
        return aliases.cover(target.buffer, target.form, done, chunk);
      });
      if (needed) elements += chunk;
    }
  };
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    const Target weight{state.weight[u], layout.weight_form(unit)}, master{state.master[u], core::Form::f32};
    const int64_t weights = unit.extent(unit.held.weights), states = unit.extent(unit.held.states);
    const bool apart = layout.has_master(unit) && unit.held.states != unit.held.weights;
    if (layout.has_master(unit) && !apart) {
      read(weights, {weight, master});
    } else {
      read(weights, {weight});
    }
    if (apart) read(states, {master});
    const auto kinds = layout.optimizer->states(unit);
    for (size_t k = 0; k < kinds.size(); ++k) {
      read(kinds[k].held_of(unit), {{state.states[u][k], kinds[k].form}});
    }
  }
  return static_cast<uint64_t>(elements) * value_bytes;
}

TierBytes placed_bytes(const ProgramSet& set, const Aliases& aliases) {
  TierBytes bytes{};
  const Program& load = set.program("load");
  for (const Op& op : load.ops) {
    if (op.kind != OpKind::load) continue;
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      bytes[static_cast<size_t>(buffer.tier)] += buffer.bytes;
    }
  }
  uint64_t written = forecast_moved(set, load).written;
  for (BufferId b = 0; b < set.buffers.size(); ++b) {
    const Alias* alias = aliases.find(b);
    if (!alias) continue;
    for (const offload::ExtentPart& part : alias->parts) written -= part.end - part.begin;
  }
  bytes[static_cast<size_t>(core::Tier::nvme)] = written;
  return bytes;
}

uint64_t of_tier(const TierBytes& bytes, core::Tier tier) {
  return bytes[static_cast<size_t>(tier)];
}

double place_seconds(const TierBytes& bytes, const Layout& layout, const Cluster& cluster) {
  const uint64_t device = of_tier(bytes, core::Tier::device), host = of_tier(bytes, core::Tier::host),
                 nvme = of_tier(bytes, core::Tier::nvme);
  const bool over_link = layout.device != core::DeviceKind::cpu;
  double seconds = 0;
  if (device > 0 && over_link) seconds += transfer_cost({.to_device = device}, layout, cluster).seconds;
  if (device > 0 && !over_link) seconds += memory_cost(static_cast<double>(device), false, cluster).seconds;
  if (host > 0) seconds += memory_cost(static_cast<double>(host), true, cluster).seconds;
  if (nvme > 0) seconds += transfer_cost({.written = nvme}, layout, cluster).seconds;
  return seconds;
}

double read_rate(const Cluster& cluster) {
  return cluster.disk_read_bytes_per_second.value_or(cluster.disk.bytes_per_second);
}

// Ranks of a host share its disk. Of the checkpoint the host reads no byte more than once from there.
DelinkSeconds seconds_on(const Cluster& cluster, int ranks, const DelinkTime& time, double place) {
  const int on_host = std::min(ranks, cluster.ranks_per_host);
  const auto saved = static_cast<double>(time.checkpoint_bytes), loaded = static_cast<double>(time.loaded_bytes);
  const double written = saved * on_host / ranks, first = std::min(saved, loaded * on_host);
  const double again = loaded - first / on_host;  // by each rank
  const double check = cluster.disk.latency_seconds + saved / read_rate(cluster);
  DelinkSeconds seconds;
  seconds.save = cluster.disk.latency_seconds + written / cluster.disk.bytes_per_second + check;
  seconds.load = check + first / read_rate(cluster) + memory_cost(again, true, cluster).seconds + place;
  return seconds;
}

}  // namespace

DelinkTime delink_time(const Plan& shared, const Plan& real, const models::Sharing& sharing) {
  DelinkTime time;
  for (const StagePlan& stage : shared.stages) time.checkpoint_bytes += saved_bytes(stage.compiled.layout);
  double place = -1;
  uint64_t most = 0;
  for (const StagePlan& stage : real.stages) {
    const Layout& layout = stage.compiled.layout;
    const Aliases aliases = aliases_of(stage, sharing);
    time.loaded_bytes = std::max(time.loaded_bytes, loaded_bytes(stage, aliases));
    const TierBytes placed = placed_bytes(stage.compiled.set, aliases);
    const double seconds = real.cluster ? place_seconds(placed, layout, *real.cluster) : 0;
    const uint64_t all = placed[0] + placed[1] + placed[2];
    if (seconds > place || (seconds == place && all > most)) time.placed_bytes = placed, place = seconds, most = all;
  }
  if (real.cluster) time.seconds = seconds_on(*real.cluster, real.layout().mesh.world(), time, place);
  return time;
}

nlohmann::ordered_json delink_json(const DelinkTime& time) {
  using Json = nlohmann::ordered_json;
  Json placed;
  for (size_t t = 0; t < core::tier_count; ++t) placed[std::string(core::tier_names[t])] = time.placed_bytes[t];
  const auto seconds = [&](auto of) { return time.seconds ? Json(of(*time.seconds)) : Json(); };
  return Json{{"checkpoint_bytes", time.checkpoint_bytes},
              {"loaded_bytes", time.loaded_bytes},
              {"placed_bytes", placed},
              {"save_seconds", seconds([](const DelinkSeconds& s) { return s.save; })},
              {"load_seconds", seconds([](const DelinkSeconds& s) { return s.load; })},
              {"seconds", seconds([](const DelinkSeconds& s) { return s.save + s.load; })}};
}

std::string delink_text(const DelinkTime& time, const std::optional<Cluster>& cluster) {
  std::string placed;
  for (size_t t = 0; t < core::tier_count; ++t) {
    if (time.placed_bytes[t] == 0) continue;
    placed += fmt::format("{}{} to {}", placed.empty() ? "" : ", ", core::format_bytes(time.placed_bytes[t]),
                          core::tier_names[t]);
  }
  std::string text = fmt::format(
      "The delink writes a checkpoint of {} and reads it twice for its hashes; a rank then reads {} of it and writes "
      "{}\n",
      core::format_bytes(time.checkpoint_bytes), core::format_bytes(time.loaded_bytes), placed);
  if (!time.seconds) return text + "no time is predicted without --cluster\n";
  const DelinkSeconds& seconds = *time.seconds;
  return text + fmt::format(
                    "on {}: {:.4g} s, of which {:.4g} s to save and {:.4g} s to load; assumed is that what a "
                    "host reads comes from its disk the first time{}\n",
                    cluster->name, seconds.save + seconds.load, seconds.save, seconds.load,
                    cluster->disk_read_bytes_per_second ? "" : ", and as fast as it is written");
}

}  // namespace zrt::runtime
