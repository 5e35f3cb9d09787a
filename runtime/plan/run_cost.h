// The cost of a long run on a cluster in days, GPU-hours, money and energy, and the wear of its drives.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/cost/cluster.h"

namespace zrt::runtime {

struct Plan;

// Asks what tokens cost; 0: not asked for.
struct Price {
  double tokens = 0, per_gpu_hour = 0;
};

struct RunCost {
  double days = 0, gpu_hours = 0;
  std::optional<double> money;           // with a price of a GPU and hour
  std::optional<double> kilowatt_hours;  // at the full power of all hosts, where the cluster's file says it
};
// `ranks` take steps of `tokens_per_step`, a GPU each; hosts are rented whole for energy.
RunCost run_cost(double seconds_per_step, double tokens_per_step, int ranks, const Price& price,
                 const Cluster& cluster);
std::string cost_text(const RunCost& cost, const Price& price);  // a sentence without its end
// The ranks of a host write at most `bytes_per_day` to its drives, steps following one another; the drives are made for
// so many days of that, where the cluster's file says what they endure.
struct DriveWear {
  double bytes_per_day = 0;
  std::optional<double> days;
};
std::optional<DriveWear> drive_wear(const Plan& plan);  // none without a cluster, or where nothing is written

// Lines of a plan's text: wear of drives, and with tokens what they cost. Empty without a cluster.
std::string run_cost_text(const Plan& plan, const Price& price);
// docs/plan.md has the keys; what is not asked for or not known is null.
nlohmann::ordered_json run_cost_json(const Plan& plan, const Price& price);
nlohmann::ordered_json drive_wear_json(const Plan& plan);

}  // namespace zrt::runtime
