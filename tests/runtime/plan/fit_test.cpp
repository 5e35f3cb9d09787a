// Tests what leaves the device tier when a budget asks for it.
#include "runtime/plan/fit.h"

#include "catch.h"
#include "core/error.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/offload_candidates.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::fit_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OffloadCandidate;
using What = OffloadCandidate::What;

namespace {

runtime::Config config_of(const std::vector<std::string>& sets = {}) {
  return runtime::parse_config(R"({"train_micro_batch_size_per_gpu": 1, "model": {"preset": "gpt2-tiny"}})", "place",
                               sets, 1);
}

uint64_t device_bytes(const runtime::Layout& layout, const Setting& s) {
  return runtime::compile(layout, phases_of(s), {}, false).plan.device().peak_bytes;
}

runtime::Limits limits_of(uint64_t device, std::optional<uint64_t> host = {}) {
  runtime::Limits limits;
  limits.of(core::Tier::device) = runtime::Limit{device, "the test"};
  if (host) limits.of(core::Tier::host) = runtime::Limit{*host, "the test"};
  return limits;
}

runtime::Compiled fit(const runtime::Config& config, const runtime::Layout& layout,
                      const std::vector<std::string>& phases, const runtime::Limits& limits) {
  return std::move(runtime::fit(config, {layout}, {phases, limits, limits, {}, true, true}).stages.front());
}

runtime::Layout open_layout(const models::Model& model, const Setting& s) {
  runtime::Layout layout = make_layout(model, s);
  layout.open_placement = true;
  return layout;
}

// Returns a layout settled with next to no device memory: the least that a run needs.
runtime::Layout least(const models::Model& model, const Setting& s) {
  return fit(config_of(), open_layout(model, s), phases_of(s), limits_of(1)).layout;
}

Setting setting(int ranks, int stage, uint32_t accumulation = 1) {
  Setting s;
  s.ranks = ranks, s.stage = stage, s.compute = core::DType::bf16, s.accumulation = accumulation;
  s.unit_elements = 100;
  s.steps = 2;
  return s;
}

}  // namespace

TEST_CASE("at five budgets from the least to everything a run fits and has the same bits", "[long]") {
  unsigned number = 0;
  for (int ranks : {1, 2, 3, 4}) {
    for (int stage = 0; stage < 4; ++stage, ++number) {
      const models::Model model = make_toy(6, 16, 17, 5, number % 2 == 1, number % 3 == 1);
      Setting s = setting(ranks, stage, number % 3 == 0 ? 4 : 1);
      const Outcome reference = run(model, s);
      const runtime::Layout smallest = least(model, s);
      const uint64_t low = device_bytes(smallest, s), high = reference.plan.device().peak_bytes;
      REQUIRE(low < high);
      for (uint64_t i = 0; i < 5; ++i) {
        INFO("ranks " << ranks << ", stage " << stage << ", budget " << i);
        const runtime::Compiled compiled =
            fit(config_of(), open_layout(model, s), phases_of(s), limits_of(low + (high - low) * i / 4));
        CHECK(compiled.layout.placement.moves() == (i < 4));
        const Outcome outcome = run_compiled(compiled, s);
        std::string top;  // of the host tier
        for (const core::LedgerEntry& entry : outcome.plan.ledger) {
          if (entry.tier == core::Tier::host && entry.offset + entry.bytes == outcome.planned_behind[0])
            top = entry.name;
        }
        INFO("the last buffer of the host tier is '" << top << "'");
        CHECK(outcome.planned[0] <= low + (high - low) * i / 4);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.measured == outcome.planned);
        CHECK(outcome.measured_behind == outcome.planned_behind);
        CHECK(outcome.moved == outcome.moved_forecast);
      }
    }
  }
}

TEST_CASE("masters and moments leave before gradients, gradients before weights") {
  const models::Model model = make_toy(6, 16, 17, 5, false, false);
  const Setting s = setting(2, 3);
  const runtime::Layout layout = open_layout(model, s);
  const auto order = offload_order(layout, runtime::nominal_cluster(core::DeviceKind::cpu));
  const auto last = [&](What what) {
    size_t found = 0;
    for (size_t i = 0; i < order.size(); ++i) found = order[i].what == what ? i : found;
    return found;
  };
  const auto first = [&](What what) {
    return static_cast<size_t>(
        std::find_if(order.begin(), order.end(), [&](const OffloadCandidate& l) { return l.what == what; }) -
        order.begin());
  };
  CHECK(last(What::optimizer) < first(What::grad));
  CHECK(last(What::grad) < first(What::weight));
  // Gradients of several windows cross the link more often than weights that are fetched for two of them would.
  size_t units = 0;
  for (const OffloadCandidate& candidate : order) units += candidate.what == What::weight;
  CHECK(units == layout.units.units.size());
}

TEST_CASE("what the host tier does not hold goes on to NVMe, and only then") {
  const models::Model model = make_toy(6, 128, 17, 5, false, false);
  const Setting s = setting(1, 0);
  const uint64_t low = device_bytes(least(model, s), s);
  const runtime::Config with_file = config_of({"memory.nvme_path=scratch"});
  const runtime::Layout open = open_layout(model, s);
  const runtime::Compiled wide = fit(with_file, open, phases_of(s), limits_of(low));
  CHECK(!wide.layout.placement.uses(core::Tier::nvme));
  const auto host = wide.plan.host().peak_bytes;
  const runtime::Compiled narrow = fit(with_file, open, phases_of(s), limits_of(low, host - 200000));
  CHECK(narrow.layout.placement.uses(core::Tier::nvme));
  CHECK(narrow.plan.host().peak_bytes <= host - 200000);
  CHECK(narrow.plan.device().peak_bytes <= low);
}

TEST_CASE("the more device memory the faster a step is predicted to be, and never slower than all or nothing") {
  const auto& cluster = runtime::nominal_cluster(core::DeviceKind::cpu);
  const std::vector<std::string> phases{"init", "step"};
  for (const char* stage : {"0", "2", "3"}) {
    const auto predict = [&](std::vector<std::string> sets, uint64_t* peak = nullptr) {
      sets.push_back(std::string("zero_optimization.stage=") + stage);
      const runtime::Config config = runtime::parse_config(
          R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
              "memory": {"unit_bytes": 4194304, "link_bytes_per_second": 4000000000},
              "model": {"type": "gpt2", "layers": 6, "hidden": 512, "heads": 8, "sequence": 128, "vocab": 512}})",
          "place", sets, 2);
      const models::Model model = config.model.make();
      const runtime::Limits limits = memory_limits(config, nullptr);
      const runtime::Compiled compiled = fit(config, make_layouts(config, model).front(), phases, limits);
      CHECK(limits.hold(peak_bytes(compiled.plan)));
      if (peak) *peak = compiled.plan.device().peak_bytes;
      return simulate(compiled.set, compiled.set.program("step"), compiled.layout, cluster).seconds;
    };
    uint64_t low = 0, high = 0, offloaded = 0;
    const double none = predict({"memory.placement=device"}, &high), host = predict({"memory.placement=host"}, &low);
    const double deepspeed = std::string(stage) == "0"
                                 ? host
                                 : predict({R"(zero_optimization.offload_optimizer={"device":"cpu"})"}, &offloaded);
    double before = host;
    for (uint64_t i = 0; i <= 8; ++i) {
      const uint64_t budget = low + (high - low) * i / 8;
      const double seconds = predict({"memory.device_budget_bytes=" + std::to_string(budget)});
      INFO("stage " << stage << ", budget " << i << ": " << seconds << " s, all on the host " << host
                    << " s, on the device " << none << " s, DeepSpeed's " << deepspeed << " s from " << offloaded
                    << " bytes");
      CHECK(seconds <= before * 1.01);
      if (offloaded > 0 && budget >= offloaded) CHECK(seconds <= deepspeed * 1.01);
      before = seconds;
    }
    CHECK(before == none);
  }
}

TEST_CASE("of what policies propose the fastest that fits is taken, whoever proposes it") {
  const models::Model model = make_toy(6, 16, 17, 5, false, false);
  const Setting s = setting(2, 3);
  const uint64_t low = device_bytes(least(model, s), s);
  const runtime::Layout before = fit(config_of(), open_layout(model, s), phases_of(s), limits_of(low)).layout;
  // Everything on the device is faster, but does not fit; nothing on it fits, but is slower.
  size_t asked = 0;
  runtime::register_placement_policy({"none and all", [&](const runtime::FitProblem& problem, const auto& start) {
                                        ++asked;
                                        std::vector<runtime::Layout> both{start, start};
                                        CHECK(!problem.holds(start));
                                        both[1].placement = before.placement;
                                        for (runtime::UnitTiers& tiers : both[1].placement.units) {
                                          tiers.weight = tiers.grad = tiers.master = core::Tier::host;
                                        }
                                        return both;
                                      }});
  const runtime::Layout after = fit(config_of(), open_layout(model, s), phases_of(s), limits_of(low)).layout;
  CHECK(asked > 0);
  const auto tiers = [](const runtime::Layout& layout) {
    std::vector<core::Tier> all;
    for (const runtime::UnitTiers& unit : layout.placement.units) {
      for (core::Tier tier : {unit.weight, unit.grad, unit.master, unit.update}) all.push_back(tier);
      for (core::Tier tier : unit.states) all.push_back(tier);
    }
    return all;
  };
  CHECK(tiers(after) == tiers(before));
  CHECK_THROWS_AS(runtime::register_placement_policy({"none and all", {}}), core::ConfigError);
}

}  // namespace zrt::fit_test
