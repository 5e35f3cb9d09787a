#include "runtime/plan/delink_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

constexpr uint64_t value_bytes = sizeof(float);  // in a checkpoint, whatever the form in a tier

uint64_t saved_bytes(const Layout& layout) {
  int64_t elements = 0;
  for (const optimizer::Unit& unit : layout.units.units) {
    if (unit.counted_elsewhere) continue;
    for (const optimizer::UnitParam& place : unit.params) elements += place.param->whole_elements();
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
      for (const optimizer::StateTensor& tensor : kind.tensors) elements += tensor.elements();
    }
  }
  return static_cast<uint64_t>(elements) * value_bytes;
}

// As the op `load` reads (runtime/ops/init.cpp): once where weights and masters are of the same elements.
uint64_t loaded_bytes(const Layout& layout) {
  int64_t elements = 0;
  for (const optimizer::Unit& unit : layout.units.units) {
    elements += unit.extent(unit.held.weights);
    if (layout.has_master(unit) && unit.held.states != unit.held.weights) elements += unit.extent(unit.held.states);
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) elements += kind.held_of(unit);
  }
  return static_cast<uint64_t>(elements) * value_bytes;
}

TierBytes placed_bytes(const ProgramSet& set) {
  TierBytes bytes{};
  const Program& load = set.program("load");
  for (const Op& op : load.ops) {
    if (op.kind != OpKind::load) continue;
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      bytes[static_cast<size_t>(buffer.tier)] += buffer.bytes;
    }
  }
  bytes[static_cast<size_t>(core::Tier::nvme)] = forecast_moved(set, load).written;
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

DelinkTime delink_time(const Plan& shared, const Plan& real) {
  DelinkTime time;
  for (const StagePlan& stage : shared.stages) time.checkpoint_bytes += saved_bytes(stage.compiled.layout);
  double place = -1;
  uint64_t most = 0;
  for (const StagePlan& stage : real.stages) {
    const Layout& layout = stage.compiled.layout;
    time.loaded_bytes = std::max(time.loaded_bytes, loaded_bytes(layout));
    const TierBytes placed = placed_bytes(stage.compiled.set);
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
