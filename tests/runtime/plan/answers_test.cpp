// Answers of `zrt plan` beside whether a run fits, against hand calculations and against trying everything.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/extreme.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::answers_test {

using namespace zrt;
using namespace zrt::runtime;
using testing::planned;

namespace {

uint64_t device_peak(const Plan& plan) {
  return peak_bytes(plan.stages[0].compiled.plan)[0];
}

bool fits(std::vector<std::string> sets, const Changes& changes, int ranks) {
  for (const auto& [key, value] : changes) sets.push_back(key + "=" + value);
  return planned(sets, ranks)->plan.fits;
}

Extreme found(const std::string& what, const std::vector<std::string>& sets, int ranks) {
  const auto p = planned(sets, ranks);
  return find_extreme(what, p->config, p->model, training_phases(p->config, "init"), nullptr);
}

}  // namespace

TEST_CASE("The fewest ranks, the longest sequence and the largest microbatch are those of trying all") {
  // 32 samples, 4 at a time: at most 8 ranks.
  for (const std::string stage : {"1", "3"}) {
    const std::vector<std::string> base{"zero_optimization.stage=" + stage, "zero_optimization.overlap_comm=false"};
    for (const int whole : {1, 2, 4}) {
      std::vector<std::string> sets = base;
      sets.push_back(fmt::format("memory.device_budget_bytes={}", device_peak(planned(base, whole)->plan)));
      CAPTURE(stage, whole);
      const Extreme ranks = found("ranks", sets, 8);
      int fewest = 0;
      for (const int tried : {8, 4, 2, 1}) {
        if (fits(sets, {{"gradient_accumulation_steps", std::to_string(8 / tried)}}, tried)) fewest = tried;
      }
      CHECK(ranks.ranks == fewest);
      CHECK(ranks.value == fewest);

      const Extreme rows = found("microbatch", sets, whole);
      int64_t most = 0;
      for (int64_t tried = 1; tried <= 12; ++tried) {
        const Changes changes{{"train_micro_batch_size_per_gpu", std::to_string(tried)},
                              {"train_batch_size", std::to_string(tried * 8)}};
        if (fits(sets, changes, whole)) most = tried;
      }
      CHECK(rows.value == most);
      CHECK(fits(sets, rows.changes, rows.ranks));

      const Extreme tokens = found("sequence", sets, whole);
      most = 0;
      for (int64_t tried = 128; tried <= 1024; tried += 128) {
        if (fits(sets, {{"model.sequence", std::to_string(tried)}}, whole)) most = tried;
      }
      CHECK(tokens.value == most);
      CHECK(tokens.text.find(
                fmt::format("the longest sequence that fits has {} tokens; {} tokens lack ", most, most + 128)) == 0);
    }
  }
}

TEST_CASE("Where nothing fits, an answer says what lacks least, and where everything does, that is the answer") {
  const Extreme none = found("ranks", {"memory.device_budget_bytes=1000000", "memory.host_budget_bytes=1000"}, 8);
  CHECK(none.ranks == 0);
  CHECK(none.text.find("no number of ranks fits; 8 lack ") == 0);
  const Extreme all = found("ranks", {"memory.device_budget_bytes=100000000000"}, 8);
  CHECK(all.text == "the fewest ranks that fit are 1");
  CHECK_THROWS_AS(found("ranks", {}, 8), core::UsageError);
  CHECK_THROWS_AS(found("parameters", {"memory.device_budget_bytes=1000000"}, 8), core::UsageError);
}

TEST_CASE("Tokens cost the days, GPU-hours, money and energy of a hand calculation") {
  Cluster cluster = find_cluster("dgx-a100");
  // A million steps of 2 s are 23.148 days; 12 ranks are on two hosts.
  const RunCost cost = run_cost(2, 1e6, 12, {1e12, 1.5}, cluster);
  CHECK(cost.days == Approx(2e6 / 86400));
  CHECK(cost.gpu_hours == Approx(2e6 / 3600 * 12));
  CHECK(cost.money.value() == Approx(2e6 / 3600 * 12 * 1.5));
  CHECK(cost.kilowatt_hours.value() == Approx(2e6 / 3600 * 2 * 6.5));
  cluster.host_watts.reset();
  CHECK_FALSE(run_cost(2, 1e6, 12, {1e12, 0}, cluster).kilowatt_hours.has_value());
  CHECK_FALSE(run_cost(2, 1e6, 12, {1e12, 0}, cluster).money.has_value());
  CHECK(cost_text(run_cost(2, 1e6, 12, {1e12, 0}, cluster), {1e12, 0}) ==
        "1e+12 tokens take 23.1 days, 6667 GPU-hours");
  CHECK(cost_text(cost, {1e12, 1.5}) ==
        "1e+12 tokens take 23.1 days, 6667 GPU-hours, which cost 10000 at 1.5 each; at the hosts' full power 7222 kWh");
}

TEST_CASE("What a day writes to a host's drives is the states of its ranks, once a step") {
  Cluster cluster = find_cluster("dgx-a100");
  cluster.drive_endurance_bytes = 1e15;
  const auto p = planned({"memory.nvme_path=scratch", "zero_optimization.stage=1", "memory.placement=auto",
                          "train_batch_size=64", R"(zero_optimization.offload_optimizer={"device": "nvme"})"},
                         16, cluster);
  // A master and two moments of 4 bytes an element, of a rank's shard of each unit, in whole blocks of 4 KiB; 8 ranks
  // are on a host.
  double bytes = 0;
  for (const optimizer::Unit& unit : p->plan.layout().units.units) {
    bytes += 3 * 4096 * static_cast<double>((4 * unit.shard + 4095) / 4096);
  }
  const std::optional<DriveWear> wear = drive_wear(p->plan);
  REQUIRE(wear.has_value());
  CHECK(wear->bytes_per_day == Approx(bytes * 8 * 86400 / p->plan.seconds_per_step()));
  CHECK(wear->days.value() == Approx(1e15 / wear->bytes_per_day));
  CHECK(run_cost_text(p->plan, {}).find("a day to its drives, which these endure for ") != std::string::npos);
  CHECK_FALSE(drive_wear(planned({}, 2, cluster)->plan).has_value());
  CHECK(run_cost_text(planned({}, 2, cluster)->plan, {}).empty());
}

}  // namespace zrt::answers_test
