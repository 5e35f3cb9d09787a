// A plan suggests changes where memory is short: each fits, states what it costs, and is as small as it can be.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/plan/planned.h"
#include "tests/runtime/plan/planned_memory.h"

namespace zrt::suggested_changes_test {

using namespace zrt;
using namespace zrt::runtime;
using testing::Planned;
using testing::planned;
using namespace zrt::planned_memory;

namespace {

// The overrides and the ranks that a suggestion asks for.
std::unique_ptr<Planned> followed(const Suggestion& suggestion, std::vector<std::string> sets, int ranks,
                                  const std::optional<Cluster>& cluster = {}) {
  for (const auto& [key, value] : suggestion.changes) {
    if (key == "ranks") {
      ranks = std::stoi(value);
    } else {
      sets.push_back(key + "=" + value);
    }
  }
  return planned(sets, ranks, cluster);
}

bool changes_only(const Suggestion& suggestion, const std::vector<std::string>& keys) {
  return std::all_of(suggestion.changes.begin(), suggestion.changes.end(), [&](const auto& change) {
    return std::find(keys.begin(), keys.end(), change.first) != keys.end();
  });
}

}  // namespace

TEST_CASE("every suggestion fits when it is followed, with the peak, the traffic and the time it states") {
  const uint64_t peak = device(*planned_in_place({}, 2)).peak_bytes;
  for (const double part : {0.97, 0.8, 0.5}) {
    const auto bytes = static_cast<uint64_t>(part * static_cast<double>(peak));
    const std::vector<std::string> sets{fmt::format("memory.device_budget_bytes={}", bytes)};
    for (const bool timed : {false, true}) {
      const auto cluster = timed ? std::optional(a_cluster(uint64_t{1} << 40)) : std::nullopt;
      const auto p = planned_in_place(sets, 2, cluster);
      CAPTURE(part, timed, peak, plan_text(p->plan));
      REQUIRE_FALSE(p->plan.suggestions.empty());
      double cost = 0;
      for (const Suggestion& suggestion : p->plan.suggestions) {
        CAPTURE(suggestion.options());
        CHECK(suggestion.cost >= cost);
        cost = suggestion.cost;
        const auto then = followed(suggestion, sets, 2, cluster);
        CHECK(then->plan.fits);
        CHECK(peak_bytes(then->plan.stages[0].compiled.plan) == suggestion.peaks);
        CHECK(total(then->plan.stages[0].comm) == suggestion.comm_bytes);
        if (timed) CHECK(then->plan.stages[0].step->seconds == *suggestion.seconds_per_step);
        // The same samples go into a step, unless it says otherwise.
        const bool batch = std::any_of(suggestion.changes.begin(), suggestion.changes.end(),
                                       [](const auto& change) { return change.first == "train_batch_size"; });
        CHECK((then->config.batch.train == 32 || batch));
      }
    }
  }
}

TEST_CASE("frozen weights in fewer bits are suggested where they fit, the most bits first") {
  const auto peak_in = [](const char* form) {
    return device(*planned_in_place({"adapters.type=lora", std::string("memory.frozen=") + form}, 1)).peak_bytes;
  };
  const uint64_t whole = peak_in("compute"), eight = peak_in("int8"), four = peak_in("nf4");
  REQUIRE(four < eight);
  REQUIRE(eight < whole);
  for (const auto& [budget, form] : {std::pair{eight, "int8"}, {four, "nf4"}}) {
    const auto p = planned_in_place({"adapters.type=lora", fmt::format("memory.device_budget_bytes={}", budget)}, 1);
    CAPTURE(plan_text(p->plan), form);
    const auto& all = p->plan.suggestions;
    const auto found =
        std::find_if(all.begin(), all.end(), [](const auto& s) { return changes_only(s, {"memory.frozen"}); });
    REQUIRE(found != all.end());
    CHECK(found->changes == std::vector<std::pair<std::string, std::string>>{{"memory.frozen", form}});
  }
}

TEST_CASE("each change is as small as it can be") {
  const auto peak_with = [](const std::vector<std::string>& sets) {
    return device(*planned_in_place(sets, 8)).peak_bytes;
  };
  const auto find = [](uint64_t budget, const std::vector<std::string>& keys) {
    const auto p = planned_in_place({fmt::format("memory.device_budget_bytes={}", budget)}, 8);
    const auto found = std::find_if(p->plan.suggestions.begin(), p->plan.suggestions.end(),
                                    [&](const Suggestion& s) { return changes_only(s, keys); });
    CAPTURE(budget, keys, plan_text(p->plan));
    REQUIRE(found != p->plan.suggestions.end());
    return *found;
  };
  const uint64_t at_two = peak_with({"zero_optimization.stage=2"});
  CHECK(find(at_two, {"zero_optimization.stage"}).changes[0].second == "2");
  // A quarter of the microbatch suffices, or half of it; twice as much as it says would not.
  const uint64_t at_one = peak_with({"train_micro_batch_size_per_gpu=1", "train_batch_size=32"});
  const Suggestion smaller = find(at_one, {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"});
  const int64_t micro = std::stoll(smaller.changes[0].second);
  CHECK(micro <= 2);
  if (micro < 2) CHECK(peak_with({"train_micro_batch_size_per_gpu=2", "train_batch_size=32"}) > at_one);
}

TEST_CASE("where one change is not enough several are suggested together, and no budget is made up") {
  // The strongest of all changes on these ranks, together, need this much.
  const std::vector<std::string> all{"zero_optimization.stage=3", "train_micro_batch_size_per_gpu=1",
                                     "zero_optimization.overlap_comm=false"};
  const uint64_t least = device(*planned_in_place(all, 2)).peak_bytes;
  const auto p = planned_in_place({fmt::format("memory.device_budget_bytes={}", least)}, 2);
  REQUIRE_FALSE(p->plan.suggestions.empty());
  for (const Suggestion& suggestion : p->plan.suggestions) {
    CHECK(suggestion.changes.size() >= 2);
    CHECK(suggestion.peaks[0] <= least);
  }
  const auto none = planned_in_place({"memory.device_budget_bytes=1000"}, 2);
  CHECK_FALSE(none->plan.fits);
  CHECK(none->plan.suggestions.empty());
  CHECK(plan_text(none->plan).find("use a smaller model, or more memory") != std::string::npos);
}

TEST_CASE("of changes that are suggested together none can be left out", "[long]") {
  // The microbatch and what keeps the batch as it is are one change, and so are the ranks and that.
  const std::vector<std::vector<std::string>> changes{{"ranks", "gradient_accumulation_steps", "train_batch_size"},
                                                      {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"},
                                                      {"zero_optimization.stage"},
                                                      {"zero_optimization.overlap_comm"},
                                                      {"memory.unit_bytes"},
                                                      {"parallel.reduce_every"}};
  int together = 0, with_ranks = 0, doubled = 0;
  for (const int stage : {0, 1, 3}) {
    for (const int64_t budget : {12000000, 16000000, 20000000, 24000000, 30000000}) {
      const std::vector<std::string> sets{fmt::format("zero_optimization.stage={}", stage),
                                          "zero_optimization.overlap_comm=true", "memory.unit_bytes=4194304",
                                          fmt::format("memory.device_budget_bytes={}", budget)};
      const auto p = planned_in_place(sets, 2);
      for (const Suggestion& suggestion : p->plan.suggestions) {
        CAPTURE(stage, budget, suggestion.options());
        // Nor would a larger microbatch do.
        Suggestion larger = suggestion;
        for (auto& [key, value] : larger.changes) {
          if (key == "train_micro_batch_size_per_gpu") value = std::to_string(2 * std::stoll(value)), ++doubled;
          if (key == "gradient_accumulation_steps") value = std::to_string(std::stoll(value) / 2);
        }
        const bool smaller = std::any_of(larger.changes.begin(), larger.changes.end(),
                                         [](const auto& one) { return one.first == "train_micro_batch_size_per_gpu"; });
        const bool even = std::none_of(larger.changes.begin(), larger.changes.end(),
                                       [](const auto& one) { return one.second == "0"; });
        if (smaller && even) CHECK_FALSE(followed(larger, sets, 2)->plan.fits);
        for (const auto& change : changes) {
          Suggestion less = suggestion;
          std::erase_if(less.changes, [&](const auto& one) {
            return std::find(change.begin(), change.end(), one.first) != change.end();
          });
          const bool has = std::any_of(suggestion.changes.begin(), suggestion.changes.end(),
                                       [&](const auto& one) { return one.first == change[0]; });
          if (!has || less.changes.empty()) continue;
          ++together, with_ranks += change[0] == "ranks";
          CAPTURE(change[0]);
          bool fits = false;
          try {
            fits = followed(less, sets, 2)->plan.fits;
          } catch (const core::ConfigError&) {
            // Without it the batch does not come out even.
          }
          CHECK_FALSE(fits);
        }
      }
    }
  }
  CHECK(together >= 10);
  CHECK(with_ranks >= 1);
  CHECK(doubled >= 1);
}

TEST_CASE("of changes that are suggested together each is as small as it can be", "[long]") {
  const auto peak = [](int micro, int ranks) {
    return device(*planned_in_place({"zero_optimization.stage=3", "model.layers=8", "model.sequence=384",
                                     "zero_optimization.overlap_comm=false", "train_batch_size=65536",
                                     fmt::format("train_micro_batch_size_per_gpu={}", micro)},
                                    ranks))
        .peak_bytes;
  };
  const uint64_t budget = peak(2, 4);
  REQUIRE(peak(1, 2) > budget);    // the smallest microbatch alone
  REQUIRE(peak(4, 256) > budget);  // more ranks alone
  const auto p = planned_in_place(
      {"zero_optimization.stage=3", "model.layers=8", "model.sequence=384", "zero_optimization.overlap_comm=false",
       "train_batch_size=65536", fmt::format("memory.device_budget_bytes={}", budget)},
      2);
  REQUIRE(p->plan.suggestions.size() == 1);
  CHECK(p->plan.suggestions[0].options() == "--ranks 4 --set train_micro_batch_size_per_gpu=2");
}

TEST_CASE("more ranks are suggested where states are cut among them") {
  const uint64_t at_eight =
      device(*planned_in_place({"zero_optimization.stage=3", "memory.unit_bytes=65536"}, 8)).peak_bytes;
  const auto p = planned_in_place(
      {"zero_optimization.stage=3", "memory.unit_bytes=65536", fmt::format("memory.device_budget_bytes={}", at_eight)},
      2);
  const auto found = std::find_if(p->plan.suggestions.begin(), p->plan.suggestions.end(), [](const Suggestion& s) {
    return s.changes[0] == std::pair<std::string, std::string>{"ranks", "8"};
  });
  REQUIRE(found != p->plan.suggestions.end());
  CHECK(found->options().find("--ranks 8") != std::string::npos);
}

TEST_CASE("copies for checkpoints are given up where the host tier is short, by a plan and by a run") {
  const std::vector<std::string> saving{"run.checkpoint_interval=5"};
  const auto with = [&](const std::string& set) { return planned({saving[0], set}, 2); };
  const auto unlimited = planned(saving, 2);
  CHECK(unlimited->plan.saves == "background");
  CHECK(planned({}, 2)->plan.saves.empty());
  const uint64_t needed = unlimited->plan.stages[0].compiled.plan.host().peak_bytes;
  for (const uint64_t budget : {needed, needed - 1}) {
    const auto p = with(fmt::format("memory.host_budget_bytes={}", budget));
    const bool copies = budget == needed;
    CHECK(p->plan.fits);
    CHECK(p->plan.saves == (copies ? "background" : "foreground"));
    CHECK(p->plan.stages[0].compiled.plan.host().peak_bytes == (copies ? needed : 0));
    CHECK((plan_text(p->plan).find("while training stands still") == std::string::npos) == copies);
    const Compiled run = compile_within_budget(p->config, p->model, training_phases(p->config, "init")).front();
    CHECK(run.set.xxh3() == p->plan.stages[0].compiled.set.xxh3());
    CHECK(run.set.has("save") == copies);
  }
}

TEST_CASE("no state leaves a tier to make room for copies") {
  std::vector<std::string> sets{"zero_optimization.stage=1", "memory.nvme_path=scratch", "memory.placement=host"};
  const uint64_t host = planned(sets, 2)->plan.stages[0].compiled.plan.host().peak_bytes;
  sets.push_back("run.checkpoint_interval=5");
  sets.push_back(fmt::format("memory.host_budget_bytes={}", host + 1000));
  const auto p = planned(sets, 2);
  CHECK(p->plan.fits);
  CHECK(p->plan.saves == "foreground");
  CHECK(p->plan.stages[0].compiled.plan.host().peak_bytes == host);
  CHECK(p->plan.stages[0].compiled.plan.tiers[2].peak_bytes == 0);
}

TEST_CASE("a run that may not move is told what would fit if it might") {
  const uint64_t peak = device(*planned({}, 2)).peak_bytes;
  const std::string budget = "memory.device_budget_bytes=" + std::to_string(peak * 3 / 4);
  const auto p = planned({budget}, 2);
  REQUIRE_FALSE(p->plan.fits);
  REQUIRE_FALSE(p->plan.suggestions.empty());
  CHECK(std::count_if(p->plan.suggestions.begin(), p->plan.suggestions.end(), moves) == 1);
  const auto moved = planned({budget, "memory.placement=auto"}, 2);
  CHECK(moved->plan.fits);
}

TEST_CASE("the refusal of a run says what its plan says") {
  const auto p = planned({"memory.device_budget_bytes=40000000"}, 2);
  REQUIRE_FALSE(p->plan.fits);
  std::string refusal;
  try {
    compile_within_budget(p->config, p->model, training_phases(p->config, "init"));
  } catch (const core::MemoryError& error) {
    refusal = error.what();
  }
  CHECK(refusal.find("memory.device_budget_bytes is 40000000 bytes") == 0);
  CHECK(refusal.find(suggestions_text(p->plan.suggestions)) != std::string::npos);
  CHECK(plan_text(p->plan).find(suggestions_text(p->plan.suggestions)) != std::string::npos);
}

}  // namespace zrt::suggested_changes_test
