#include "runtime/plan/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime {

TierBytes peak_bytes(const MemoryPlan& plan) {
  TierBytes peaks{};
  for (size_t t = 0; t < core::tier_count; ++t) peaks[t] = plan.tiers[t].peak_bytes;
  return peaks;
}

TierBytes peak_bytes(std::span<const Compiled> stages) {
  TierBytes most{};
  for (const Compiled& stage : stages) {
    for (size_t t = 0; t < core::tier_count; ++t) most[t] = std::max(most[t], stage.plan.tiers[t].peak_bytes);
  }
  return most;
}

double Limits::excess(const TierBytes& peaks) const {
  double excess = 0;
  for (size_t t = 0; t < core::tier_count; ++t) {
    if (tiers[t] && peaks[t] > tiers[t]->bytes) excess += static_cast<double>(peaks[t] - tiers[t]->bytes);
  }
  return excess;
}

Config on_cluster(Config config, const Cluster* cluster) {
  const bool says = cluster != nullptr && cluster->exchange == Exchange::once_per_host;
  if (config.ranks_in_reach != 0 || !says) return config;
  const int world = config.mesh.world(), per_host = cluster->ranks_per_host;
  const bool in_a_row = world <= per_host || (cluster->distribution == Distribution::block && world % per_host == 0);
  return in_reach(std::move(config), in_a_row ? per_host : 1);
}

Limits memory_limits(const Config& config, const Cluster* cluster) {
  Limits limits;
  const auto limit = [&](core::Tier tier, uint64_t bytes, std::string from) {
    std::optional<Limit>& known = limits.of(tier);
    if (!known || bytes < known->bytes) known = Limit{bytes, std::move(from)};
  };
  const auto budget = [&](core::Tier tier, const std::optional<int64_t>& bytes, const char* key) {
    if (bytes) limit(tier, static_cast<uint64_t>(*bytes), key);
  };
  budget(core::Tier::device, config.memory.device_budget_bytes, "memory.device_budget_bytes");
  budget(core::Tier::host, config.memory.host_budget_bytes, "memory.host_budget_bytes");
  budget(core::Tier::nvme, config.memory.nvme_budget_bytes, "memory.nvme_budget_bytes");
  if (!cluster) return limits;
  const auto sharing = static_cast<uint64_t>(std::min(cluster->ranks_per_host, config.mesh.world()));
  for (size_t t = 0; t < core::tier_count; ++t) {
    const auto tier = static_cast<core::Tier>(t);
    if (tier == core::Tier::device) {
      limit(tier, cluster->tier_bytes[t] - cluster->reserved.bytes(),
            fmt::format("a device of {}{}", cluster->name, cluster->reserved.less()));
    } else {
      limit(tier, cluster->tier_bytes[t] / sharing,
            fmt::format("the share of each of {} ranks of a host of {}", sharing, cluster->name));
    }
  }
  return limits;
}

Reserved reserved_in_run(const Config& config) {
  if (config.run.device != core::DeviceKind::cuda) return {};
  const std::string& cluster = config.parallel.cluster;
  const Reserved said = cluster.empty() ? Reserved{} : find_cluster(cluster).reserved.after_context();
  return said.parts.empty() ? usual_reserved() : said;
}

Limits gpu_limits(const GpuRoom& room, const Reserved& reserved) {
  const std::string less = reserved.less();
  Limits limits;
  limits.more_ranks = false;
  limits.of(core::Tier::device) = Limit{
      (room.free_bytes - std::min(room.free_bytes, reserved.bytes())) / room.ranks,
      fmt::format("what a GPU's {} of free memory{}{} leave each of {} rank{}", core::format_bytes(room.free_bytes),
                  less, less.empty() ? "" : ",", room.ranks, room.ranks == 1 ? "" : "s")};
  return limits;
}

std::string shortage_text(const MemoryPlan& plan, const Limits& limits) {
  std::string text;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = plan.tiers[t];
    if (!limits.tiers[t] || tier.peak_bytes <= limits.tiers[t]->bytes) continue;
    text += fmt::format(
        "{}{} is {} bytes ({}) but each rank needs {} bytes ({}) of its {} tier; the peak is in phase '{}' at '{}'.",
        text.empty() ? "" : "\n", limits.tiers[t]->from, limits.tiers[t]->bytes,
        core::format_bytes(limits.tiers[t]->bytes), tier.peak_bytes, core::format_bytes(tier.peak_bytes),
        core::tier_names[t], tier.peak_phase, tier.peak_op);
  }
  return text;
}

}  // namespace zrt::runtime
