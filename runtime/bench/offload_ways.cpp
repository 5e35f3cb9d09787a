#include "runtime/bench/offload_ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/plan/fit.h"

namespace zrt::runtime {
namespace {

const std::vector<std::string> phases{"init", "step"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

std::vector<std::string> offload_placement_names() {
  return {"auto", "host", "deepspeed", "device"};
}

OffloadPlacement offload_placement(const std::string& name, int stage, bool nvme) {
  const std::vector<std::string> fixed{"memory.recompute=none", "memory.device_budget_bytes=null",
                                       "memory.host_budget_bytes=null"};
  const std::string tier = nvme ? "nvme" : "host", device = nvme ? "nvme" : "cpu";
  if (name == "auto") return {name, {{"memory.placement=auto"}}};
  if (name == "host") return {name, {with({"memory.placement=" + tier}, fixed)}};
  if (name == "device") return {name, {with({"memory.placement=device"}, fixed)}};
  if (name != "deepspeed") {
    throw core::UsageError(fmt::format("placement {}: legal are {}", core::keys::in_quotes(name),
                                       core::keys::join(offload_placement_names())));
  }
  OffloadPlacement placement{name, {}};
  const auto optimizer = with({"zero_optimization.offload_optimizer.device=" + device}, fixed);
  if (stage > 0) placement.sets.push_back(optimizer);
  if (stage == 3) placement.sets.push_back(with(optimizer, {"zero_optimization.offload_param.device=" + device}));
  return placement;
}

OffloadWay compile_way(const Config& config, const models::Model& model, const std::vector<std::string>& sets) {
  OffloadWay way;
  way.config = reconfigured(config, sets, config.ranks);
  way.stages = compile_within_budget(way.config, model, phases);
  return way;
}

OffloadRun describe(const OffloadWay& way) {
  OffloadRun run;
  const Compiled& first = way.stages.front();
  const TierBytes peaks = peak_bytes(way.stages);
  run.device_bytes = peaks[0], run.host_bytes = peaks[1], run.nvme_bytes = peaks[2];
  // The bytes moved are those of the stage that moves most.
  for (const Compiled& stage : way.stages) {
    const Moved moved = forecast_moved(stage.set, stage.set.program("step"));
    if (moved.to_device + moved.to_host >= run.moved.to_device + run.moved.to_host) run.moved = moved;
  }
  const auto of = [](uint64_t bytes) { return static_cast<double>(bytes); };
  double link = first.layout.link_bytes_per_second;
  if (!way.config.parallel.cluster.empty()) {
    const Cluster cluster = find_cluster(way.config.parallel.cluster);
    run.predicted = std::move(simulate_step(way.stages, cluster).front());
    link = link > 0 ? std::min(link, cluster.host_link.bytes_per_second) : cluster.host_link.bytes_per_second;
    const int sharing = std::min(way.config.mesh.world(), cluster.ranks_per_host);
    const double writes = cluster.disk.bytes_per_second, reads = cluster.disk_read_bytes_per_second.value_or(writes);
    run.disk_seconds = sharing * (of(run.moved.written) / writes + of(run.moved.read) / reads);
  }
  if (link > 0) run.link_seconds = of(std::max(run.moved.to_device, run.moved.to_host)) / link;
  return run;
}

uint64_t least_device_bytes(const Config& config, const models::Model& model, std::vector<std::string> sets) {
  sets.insert(sets.end(), {"memory.placement=auto", "memory.device_budget_bytes=1"});
  const Config least = reconfigured(config, sets, config.ranks);
  const Limits limits = memory_limits(least, nullptr);
  const Fitted fitted = fit(least, make_layouts(least, model), {phases, limits, limits, {}, true, false});
  return peak_bytes(fitted.stages)[static_cast<size_t>(core::Tier::device)];
}

}  // namespace zrt::runtime
