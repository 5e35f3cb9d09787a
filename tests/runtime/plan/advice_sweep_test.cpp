// Configurations drawn at random that do not fit: each advice, followed, fits with the bytes that it says. Of those
// that fit none is predicted to be faster with recomputation, an order of microbatches or a placement set by hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "tests/runtime/harness.h"

namespace zrt::advice_sweep_test {

using namespace zrt::runtime;

namespace {

struct Drawn {
  std::vector<std::string> sets;
  int ranks = 1;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  Drawn operator()() {
    const int tensor = of({1, 1, 2}), pipeline = of({1, 1, 2}), data = of({1, 2, 4});
    const int micro = of({1, 2, 4}), accumulation = of({1, 2, 4, 8});
    Drawn drawn;
    drawn.ranks = tensor * pipeline * data;
    const auto set = [&](const char* key, const auto& value) {
      drawn.sets.push_back(fmt::format("{}={}", key, value));
    };
    set("parallel.tensor", tensor);
    set("parallel.pipeline", pipeline);
    set("train_micro_batch_size_per_gpu", micro);
    set("train_batch_size", micro * accumulation * data);
    set("zero_optimization.stage", of({0, 1, 2, 3}));
    set("zero_optimization.overlap_comm", of({0, 1}) == 1);
    set("model.layers", of({2, 3, 4}));
    set("model.type", of({0, 1}) == 1 ? "llama" : "gpt2");
    set("memory.placement", of({0, 1}) == 1 ? "auto" : "device");
    set("memory.recompute", std::array{"auto", "none", "selective", "full"}[static_cast<size_t>(of({0, 1, 2, 3}))]);
    set("bf16.enabled", of({0, 1, 1}) == 1);
    return drawn;
  }
  double share() { return std::uniform_real_distribution(0.1, 0.98)(random_); }

 private:
  int of(std::initializer_list<int> all) {
    return all.begin()[std::uniform_int_distribution<size_t>(0, all.size() - 1)(random_)];
  }
  std::mt19937 random_;
};

Plan planned(const std::vector<std::string>& sets, int ranks, const std::optional<Cluster>& cluster = {}) {
  const Config config = parse_config(
      R"({"memory": {"unit_bytes": 1048576}, "model": {"hidden": 128, "heads": 4, "sequence": 64, "vocab": 512}})",
      "sweep.json", sets, ranks);
  return make_plan(config, config.model.make(), training_phases(config, "init"), cluster);
}

TierBytes peaks_of(const Plan& plan) {
  TierBytes most{};
  for (const StagePlan& stage : plan.stages) {
    for (size_t t = 0; t < most.size(); ++t) most[t] = std::max(most[t], stage.compiled.plan.tiers[t].peak_bytes);
  }
  return most;
}

uint64_t part(double share, uint64_t bytes) {
  return std::max<uint64_t>(1, static_cast<uint64_t>(share * static_cast<double>(bytes)));
}

}  // namespace

TEST_CASE("each advice to configurations drawn at random fits with its bytes when it is followed", "[long]") {
  const int refusals = testing::full_tests() ? 200 : 60;
  Draw draw(1);
  int refused = 0, followed = 0;
  std::set<std::string> keys;
  while (refused < refusals) {
    Drawn drawn = draw();
    const TierBytes whole = peaks_of(planned(drawn.sets, drawn.ranks));
    drawn.sets.push_back(fmt::format("memory.device_budget_bytes={}", part(draw.share(), whole[0])));
    drawn.sets.push_back(fmt::format("memory.host_budget_bytes={}", part(draw.share() / 2, whole[0])));
    const Plan plan = planned(drawn.sets, drawn.ranks);
    if (plan.fits) continue;
    ++refused;
    for (const Suggestion& suggestion : plan.suggestions) {
      INFO(fmt::format("{} ranks, {}\n{}", drawn.ranks, fmt::join(drawn.sets, " "), suggestion.options()));
      std::vector<std::string> sets = drawn.sets;
      int ranks = drawn.ranks;
      for (const auto& [key, value] : suggestion.changes) {
        keys.insert(key);
        key == "ranks" ? void(ranks = std::stoi(value)) : sets.push_back(key + "=" + value);
      }
      const Plan then = planned(sets, ranks);
      ++followed;
      CHECK(then.fits);
      CHECK(peaks_of(then) == suggestion.peaks);
    }
  }
  CHECK(followed >= refusals);
  if (!testing::full_tests()) return;
  for (const char* key : {"memory.recompute", "parallel.tensor", "parallel.pipeline", "memory.moments", "ranks",
                          "zero_optimization.stage", "train_micro_batch_size_per_gpu", "memory.placement"}) {
    CAPTURE(key);
    CHECK(keys.contains(key));
  }
}

TEST_CASE("No recomputation, order or placement that is set by hand is predicted to be faster than auto", "[long]") {
  const int configurations = testing::full_tests() ? 200 : 25;
  Draw draw(2);
  int compared = 0;
  for (int checked = 0; checked < configurations;) {
    Drawn drawn = draw();
    drawn.sets.insert(drawn.sets.end(), {"memory.placement=auto", "memory.recompute=auto"});
    const TierBytes whole = peaks_of(planned(drawn.sets, drawn.ranks));
    Cluster cluster = find_cluster("dgx-a100");
    cluster.reserved = {}, cluster.tier_bytes[0] = part(draw.share(), whole[0]);
    drawn.sets.push_back("parallel.cluster=dgx-a100");
    const Plan plan = planned(drawn.sets, drawn.ranks, cluster);
    if (!plan.fits) continue;
    ++checked;
    for (const char* set :
         {"memory.microbatch_order=microbatch_major", "memory.microbatch_order=layer_major", "memory.placement=device",
          "memory.placement=host", "memory.recompute=none", "memory.recompute=selective", "memory.recompute=full"}) {
      INFO(fmt::format("{} ranks, {}\n{}", drawn.ranks, fmt::join(drawn.sets, " "), set));
      std::vector<std::string> sets = drawn.sets;
      sets.push_back(set);
      // An order that is asked for by name reduces once a step, too, which is no matter of order: other bits.
      sets.push_back(fmt::format("parallel.reduce_every={}", plan.layout().reduce_every));
      try {
        const Plan by_hand = planned(sets, drawn.ranks, cluster);
        if (!by_hand.fits) continue;
        ++compared;
        CHECK(plan.seconds_per_step() <= by_hand.seconds_per_step() * 1.02);
      } catch (const core::ConfigError&) {
        // Not every model has every order.
      }
    }
  }
  CHECK(compared >= 4 * configurations);
}

}  // namespace zrt::advice_sweep_test
