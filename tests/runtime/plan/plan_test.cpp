// A plan says of a run before it: communication, states, memory over time, limits and staging.
#include "runtime/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/group_ways.h"
#include "runtime/plan/memory_over_time.h"
#include "runtime/report/plan_page.h"
#include "temporary_folder.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/plan/planned.h"
#include "tests/runtime/plan/planned_memory.h"
#include "tests/runtime/toy_model.h"

namespace zrt::plan_test {

using namespace zrt;
using namespace zrt::runtime;
using core::Category;
using testing::Planned;
using testing::planned;
using namespace zrt::planned_memory;

namespace {

uint64_t all_states(const Planned& p) {
  return states(p, Category::weights) + states(p, Category::grads) + states(p, Category::master) +
         states(p, Category::moment1) + states(p, Category::moment2);
}

}  // namespace

TEST_CASE("planned communication is what the counters of a run find") {
  struct Case {
    int ranks, stage;
    uint32_t accumulation, every;
    bool adafactor;
    testing::Islands groups = {};
  };
  std::vector<Case> cases;
  for (int stage = 0; stage < 4; ++stage) {
    for (auto [accumulation, every] : {std::pair{1u, 1u}, {4u, 1u}, {4u, 2u}, {4u, 4u}}) {
      cases.push_back({2, stage, accumulation, every, false});
    }
    cases.push_back({1, stage, 2, 1, true});
    cases.push_back({4, stage, 2, 1, true});
    cases.push_back({4, stage, 2, 1, false, {2, true}});
  }
  for (const Case& c : cases) {
    const models::Model model = testing::make_toy(3, 12, 17, 5, c.ranks == 4, c.stage == 2);
    testing::Setting s;
    s.ranks = c.ranks, s.stage = c.stage, s.accumulation = c.accumulation, s.reduce_every = c.every;
    s.unit_elements = 100, s.bucket = 250, s.steps = 3, s.compute = core::DType::bf16;
    if (c.adafactor) s.optimizer = make_optimizer(optimizer::AdafactorParams{});
    s.groups = c.groups;
    const Layout layout = testing::make_layout(model, s);
    Compiled compiled = compile(layout, testing::phases_of(s));
    CommBytes bytes = comm_bytes(compiled.set, compiled.set.program("step"), layout);
    for (auto& [kind, count] : bytes) count *= 3;
    const auto measured = testing::run_compiled(std::move(compiled), s).comm;
    CAPTURE(c.ranks, c.stage, c.accumulation, c.every, c.adafactor, c.groups.hierarchical);
    for (const OpKind kind :
         {OpKind::gather, OpKind::reduce_grad, OpKind::gather_grad, OpKind::share_control, OpKind::share_sums}) {
      const auto found = measured.find(kind);
      const auto planned = bytes.find(kind);
      CAPTURE(op_kind_name(kind));
      CHECK((found == measured.end() ? 0 : found->second.bytes) == (planned == bytes.end() ? 0 : planned->second));
    }
  }
}

TEST_CASE("the states of all ranks are the model's, whatever the number of ranks and the stage") {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int stage : {0, 1, 2, 3}) {
      const auto p = planned({fmt::format("zero_optimization.stage={}", stage), "train_batch_size=64"}, ranks);
      CAPTURE(ranks, stage);
      const auto n = static_cast<uint64_t>(ranks);
      const auto elements = static_cast<uint64_t>(p->model.parameters() + p->plan.layout().units.padding());
      const auto held = [&](Category category, int from) { return states(*p, category) * (stage >= from ? n : 1); };
      CHECK(held(Category::weights, 3) == elements * 2);
      CHECK(held(Category::master, 1) == elements * 4);
      CHECK(held(Category::moment1, 1) == elements * 4);
      CHECK(held(Category::moment2, 1) == elements * 4);
      CHECK(held(Category::grads, 2) == elements * 4);
    }
  }
}

TEST_CASE("stages 1 and 2 differ by the gradients that the other ranks hold") {
  const auto first = planned({"parallel.reduce_every=1"}, 4);
  const auto second = planned({"zero_optimization.stage=2"}, 4);
  CHECK(all_states(*first) - all_states(*second) == states(*first, Category::grads) / 4 * 3);
}

TEST_CASE("tied and untied models differ by one embedding") {
  for (const int stage : {0, 3}) {
    const std::string set = fmt::format("zero_optimization.stage={}", stage);
    const auto tied = planned({set}, 2), untied = planned({set, "model.tied=false"}, 2);
    CHECK(untied->model.parameters() - tied->model.parameters() == 2048 * 256);
    const uint64_t bytes = 2 + 4 + 12;  // bf16, with gradients summed in fp32
    CHECK(all_states(*untied) - all_states(*tied) == 2048 * 256 * bytes / (stage == 3 ? 2 : 1));
  }
}

TEST_CASE("initialisation is one of the phases, and every category has its bytes") {
  const auto p = planned({"run.checkpoint_interval=5", R"(data.validation="held-out")"}, 2);
  std::vector<std::string> phases;
  for (const PhasePeak& phase : p->plan.stages[0].phases) {
    phases.push_back(phase.phase);
    CHECK(phase.live_bytes >= all_states(*p));
    CHECK(phase.live_bytes <= device(*p).live_peak_bytes);
    CHECK((phase.phase == device(*p).peak_phase) == (phase.live_bytes == device(*p).live_peak_bytes));
  }
  CHECK(std::vector<std::string>(phases.begin(), phases.begin() + 5) ==
        std::vector<std::string>{"init", "step", "export", "save", "eval"});
  CHECK(std::accumulate(device(*p).categories.begin(), device(*p).categories.end(), uint64_t{0}) ==
        device(*p).live_peak_bytes);
  CHECK(p->plan.stages[0].compiled.plan.host().peak_bytes > 0);
}

TEST_CASE("planning twice gives the same plan") {
  CHECK(to_json(planned({}, 4, a_cluster(1 << 30))->plan) == to_json(planned({}, 4, a_cluster(1 << 30))->plan));
}

TEST_CASE("a budget that holds the plan fits, one byte less does not") {
  const uint64_t peak = device(*planned_in_place({}, 2)).peak_bytes;
  CHECK(planned_in_place({fmt::format("memory.device_budget_bytes={}", peak)}, 2)->plan.fits);
  const auto p = planned_in_place({fmt::format("memory.device_budget_bytes={}", peak - 1)}, 2);
  CHECK_FALSE(p->plan.fits);
  CHECK_FALSE(p->plan.suggestions.empty());
  CHECK(planned_in_place({}, 2, a_cluster(peak))->plan.fits);
  CHECK_FALSE(planned_in_place({}, 2, a_cluster(peak - 1))->plan.fits);
}

TEST_CASE("ranks of a host share its memory, and of two limits the smaller counts") {
  Cluster cluster = a_cluster(1000);
  cluster.tier_bytes[1] = 8000;
  const auto host = [&](int ranks) {
    return memory_limits(parse_config(testing::plan_base, "plan.json", {"train_batch_size=null"}, ranks), &cluster)
        .of(core::Tier::host)
        ->bytes;
  };
  CHECK(host(1) == 8000);
  CHECK(host(4) == 2000);
  CHECK(host(8) == 1000);
  CHECK(host(64) == 1000);
  for (const int64_t budget : {500, 2000}) {
    const Config config =
        parse_config(testing::plan_base, "plan.json", {fmt::format("memory.device_budget_bytes={}", budget)}, 2);
    Limits limits = memory_limits(config, &cluster);
    CHECK(limits.of(core::Tier::device)->bytes == (budget == 500 ? 500 : 1000));
    CHECK(limits.of(core::Tier::device)->from ==
          (budget == 500 ? "memory.device_budget_bytes" : "a device of dgx-a100"));
  }
}

TEST_CASE("what a GPU holds for its context and libraries is no part of its budget, in words and in JSON") {
  const uint64_t peak = device(*planned_in_place({}, 2)).peak_bytes;
  Cluster cluster = a_cluster(peak + 1024);
  cluster.reserved.parts = {{"context", 1000}, {"modules", 0}, {"nccl", 24}};
  const auto p = planned_in_place({}, 2, cluster);
  CHECK(p->plan.fits);
  CHECK_THAT(plan_text(p->plan), Catch::Contains("(a device of dgx-a100, less 1.00 KiB (context 1000 B, nccl 24 B))"));
  const auto json = nlohmann::json::parse(to_json(p->plan));
  CHECK(json["reserved_bytes"] == 1024);
  CHECK(json["reserved"] == nlohmann::json{{"context", 1000}, {"modules", 0}, {"nccl", 24}});
  CHECK(json["limits"]["device"] == peak);
  cluster.reserved.parts[1].bytes = 1;
  CHECK_FALSE(planned_in_place({}, 2, cluster)->plan.fits);
  const auto without = nlohmann::json::parse(to_json(planned_in_place({}, 2)->plan));
  CHECK(without["reserved_bytes"].is_null());
  CHECK(without["reserved"] == nlohmann::json::object());
}

TEST_CASE("a run on GPUs leaves of what is free what it has yet to take, as its cluster or else zrt says") {
  const auto reserved = [](std::vector<std::string> sets) {
    return reserved_in_run(parse_config(testing::plan_base, "plan.json", sets, 2));
  };
  const testing::TemporaryFolder folder;
  const std::string file = folder.path / "mine.json";
  std::ifstream shipped(ZRT_SOURCE_DIR "/share/clusters/dgx-h100.json");
  auto document = nlohmann::json::parse(shipped);
  document["memory"]["reserved_bytes"]["nccl"]["value"] = uint64_t{4} << 30;
  std::ofstream(file) << document.dump();
  const std::string usual = ", less 1.00 GiB (modules 128.00 MiB, libraries 352.00 MiB, nccl 544.00 MiB)";
  CHECK(reserved({"run.device=cuda"}).less() == usual);
  CHECK(reserved({"run.device=cuda", "parallel.cluster=dgx-h100"}).less() == usual);
  CHECK(reserved({"run.device=cuda", "parallel.cluster=" + file}).less() ==
        ", less 4.47 GiB (modules 128.00 MiB, libraries 352.00 MiB, nccl 4.00 GiB)");
  CHECK(reserved({}).parts.empty());

  const Limit device = *gpu_limits({2, uint64_t{11} << 30}, usual_reserved()).of(core::Tier::device);
  CHECK(device.bytes == uint64_t{5} << 30);
  CHECK(device.from == "what a GPU's 11.00 GiB of free memory" + usual + ", leave each of 2 ranks");
  CHECK(gpu_limits({1, 1000}, usual_reserved()).of(core::Tier::device)->bytes == 0);
  CHECK(gpu_limits({1, 1000}, {}).of(core::Tier::device)->from ==
        "what a GPU's 1000 B of free memory leave each of 1 rank");
}

TEST_CASE("where hosts have different numbers of ranks every group has staging, as in a run") {
  Cluster cluster = a_cluster(uint64_t{1} << 40);
  cluster.ranks_per_host = 4;
  for (const int ranks : {4, 6, 8}) {
    const auto p = planned({"parallel.tensor=2", "train_batch_size=48"}, ranks, cluster);
    const std::vector<GroupWay> ways = group_ways(p->plan);
    CHECK_FALSE(ways.empty());
    for (const GroupWay& one : ways) {
      CAPTURE(ranks, one.group.name);
      CHECK((one.staging_bytes > 0) == (ranks == 6 || one.at.hosts > 1));
    }
  }
}

TEST_CASE("what does not fit is the peak of a rank's memory with the gaps between its buffers, tier by tier") {
  for (size_t t = 0; t < core::tier_count; ++t) {
    MemoryPlan plan;
    TierPlan& tier = plan.tiers[t];
    tier.live_peak_bytes = 900, tier.peak_bytes = 1000, tier.peak_phase = "step", tier.peak_op = "forward h.1";
    CAPTURE(core::tier_names[t]);
    // A limit of as much as is live is too little, too.
    for (const uint64_t bytes : {100, 900, 999}) {
      Limits limits;
      limits.tiers[t] = Limit{bytes, "a key"};
      CHECK(shortage_text(plan, limits) ==
            fmt::format("a key is {0} bytes ({0} B) but each rank needs 1000 bytes (1000 B) of its {1} tier; the peak "
                        "is in phase 'step' at 'forward h.1'.",
                        bytes, core::tier_names[t]));
      CHECK_FALSE(limits.hold(peak_bytes(plan)));
    }
    Limits limits;
    limits.tiers[t] = Limit{1000, "a key"};
    CHECK(shortage_text(plan, limits).empty());
    CHECK(limits.hold(peak_bytes(plan)));
  }
}

TEST_CASE("a million ranks are planned, all of them reported") {
  const auto p = planned({"train_batch_size=null", "gradient_accumulation_steps=1", "zero_optimization.stage=3"},
                         1 << 20, find_cluster("dgx-a100"));
  REQUIRE(p->plan.stages.size() == 1);
  CHECK(p->plan.stages[0].first == 0);
  CHECK(p->plan.stages[0].last == (1 << 20) - 1);
  CHECK(plan_text(p->plan).find("ranks 0–1048575, all alike") != std::string::npos);
  // Processes may be as many, threads of one may not.
  CHECK_NOTHROW(check_run(planned({"run.steps=1", "train_batch_size=null"}, 4096)->config));
  CHECK_THROWS_AS(comm::make_thread_transport(1 << 20), core::UsageError);
}

TEST_CASE("memory over the time of a serialized step has the planned peak, at its op") {
  for (const char* stage : {"0", "1", "2", "3"}) {
    for (const char* every : {"1", "2", "4"}) {
      const auto p = planned({std::string("zero_optimization.stage=") + stage,
                              std::string("parallel.reduce_every=") + every, "zero_optimization.overlap_comm=false"},
                             2);
      const ProgramSet& set = p->plan.stages[0].compiled.set;
      const Program& step = set.program("step");
      std::vector<SimulatedOp> timeline;
      for_each_execution(step, ~0u, [&](OpId op, uint32_t iteration) {
        const auto at = static_cast<double>(timeline.size());
        timeline.push_back({op, iteration, at, at + 1});
      });
      const auto points = memory_over_time(set, step, timeline, core::Tier::device);
      const auto highest = std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
        return total(a.categories) < total(b.categories);
      });
      CAPTURE(stage, every);
      const auto peak = std::find_if(p->plan.stages[0].phases.begin(), p->plan.stages[0].phases.end(),
                                     [](const PhasePeak& phase) { return phase.phase == "step"; });
      CHECK(total(highest->categories) == peak->live_bytes);
      CHECK(step.ops[timeline.at(static_cast<size_t>(highest->seconds)).op].name == peak->op);
      // Only what is kept is left.
      core::CategoryBytes kept{};
      for (const Buffer& buffer : set.buffers) {
        const bool counts = buffer.tier == core::Tier::device && buffer.life != Life::transient;
        if (counts) kept[static_cast<size_t>(buffer.category)] += buffer.bytes * buffer.slots;
      }
      CHECK(points.back().categories == kept);
    }
  }
}

TEST_CASE("a page stays small however long the step, and shows its ops") {
  for (const char* batch : {"32", "16384"}) {
    const auto p = planned({std::string("train_batch_size=") + batch}, 2, find_cluster("dgx-a100"));
    const std::string page = plan_page(p->plan);
    CAPTURE(batch);
    CHECK(page.size() < 2000000);
    CHECK(page.find("forward h.0, microbatch 0") != std::string::npos);
    CHECK(page.find("reduce ") != std::string::npos);
    CHECK(page.find("Live bytes of the device tier") != std::string::npos);
  }
  const auto p = planned({}, 2);
  CHECK(plan_page(p->plan).find("The axes count ops") != std::string::npos);
}

TEST_CASE("llama-3b, a yardstick of benchmarks, has three billion parameters and heads of 128") {
  const Config config = parse_config(R"({"train_batch_size": 1})", "c", {"model.preset=llama-3b"}, 1);
  CHECK(config.model.make().parameters() == 3015355392);
  CHECK(config.model.hidden / config.model.heads == 128);
}

}  // namespace zrt::plan_test
