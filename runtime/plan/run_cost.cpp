#include "runtime/plan/run_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/plan/plan.h"
#include "runtime/program/moved.h"

namespace zrt::runtime {
namespace {

constexpr double day = 86400;

nlohmann::ordered_json number_or_null(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

// Returns none where no cluster says how long a step takes, or nobody asks.
std::optional<RunCost> cost_of(const Plan& plan, const Price& price) {
  if (!plan.cluster || price.tokens == 0) return std::nullopt;
  return run_cost(plan.seconds_per_step(), static_cast<double>(plan.tokens_per_step()), plan.layout().mesh.world(),
                  price, *plan.cluster);
}

}  // namespace

RunCost run_cost(double seconds_per_step, double tokens_per_step, int ranks, const Price& price,
                 const Cluster& cluster) {
  const double hours = seconds_per_step * price.tokens / tokens_per_step / 3600;
  RunCost cost{hours / 24, hours * ranks, {}, {}};
  if (price.per_gpu_hour > 0) cost.money = cost.gpu_hours * price.per_gpu_hour;
  const int hosts = host_spread({ranks, 1, 0}, ranks, cluster.ranks_per_host).hosts;
  if (cluster.host_watts) cost.kilowatt_hours = hours * hosts * *cluster.host_watts / 1000;
  return cost;
}

std::string cost_text(const RunCost& cost, const Price& price) {
  std::string text =
      fmt::format("{:.4g} tokens take {:.1f} days, {:.0f} GPU-hours", price.tokens, cost.days, cost.gpu_hours);
  if (cost.money) text += fmt::format(", which cost {:.0f} at {:g} each", *cost.money, price.per_gpu_hour);
  if (cost.kilowatt_hours) text += fmt::format("; at the hosts' full power {:.0f} kWh", *cost.kilowatt_hours);
  return text;
}

std::optional<DriveWear> drive_wear(const Plan& plan) {
  if (!plan.cluster) return std::nullopt;
  uint64_t most = 0;  // by a rank in a step
  for (const StagePlan& stage : plan.stages) {
    most = std::max(most, forecast_moved(stage.compiled.set, stage.compiled.set.program("step")).written);
  }
  if (most == 0) return std::nullopt;
  const int ranks = std::min(plan.layout().mesh.world(), plan.cluster->ranks_per_host);
  DriveWear wear{static_cast<double>(most) * ranks * day / plan.seconds_per_step(), {}};
  if (plan.cluster->drive_endurance_bytes) wear.days = *plan.cluster->drive_endurance_bytes / wear.bytes_per_day;
  return wear;
}

std::string run_cost_text(const Plan& plan, const Price& price) {
  std::string text;
  if (const std::optional<DriveWear> wear = drive_wear(plan)) {
    text += fmt::format("the ranks of a host write at most {} a day to its drives",
                        core::format_bytes(static_cast<uint64_t>(wear->bytes_per_day)));
    if (wear->days) text += fmt::format(", which these endure for {:.0f} days", *wear->days);
    text += "\n";
  }
  if (const std::optional<RunCost> cost = cost_of(plan, price)) text += cost_text(*cost, price) + "\n";
  return text;
}

nlohmann::ordered_json run_cost_json(const Plan& plan, const Price& price) {
  const std::optional<RunCost> cost = cost_of(plan, price);
  const auto of = [&](auto field) { return cost ? number_or_null(std::optional<double>((*cost).*field)) : nullptr; };
  return {{"tokens", cost ? nlohmann::ordered_json(price.tokens) : nullptr},
          {"days", of(&RunCost::days)},
          {"gpu_hours", of(&RunCost::gpu_hours)},
          {"cost", of(&RunCost::money)},
          {"kilowatt_hours", of(&RunCost::kilowatt_hours)}};
}

nlohmann::ordered_json drive_wear_json(const Plan& plan) {
  const std::optional<DriveWear> wear = drive_wear(plan);
  return {{"bytes_per_day", wear ? nlohmann::ordered_json(wear->bytes_per_day) : nullptr},
          {"days", wear ? number_or_null(wear->days) : nullptr}};
}

}  // namespace zrt::runtime
