// Plans of pipelines: what stages decide together, and what each decides for itself.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::pipeline_plan_test {

using namespace zrt;
using namespace zrt::runtime;
using testing::Planned;
using testing::planned;

TEST_CASE("stages of a pipeline save in the same way, and each keeps its own budget") {
  const std::vector<std::string> sets{"run.checkpoint_interval=5", "parallel.pipeline=2", "parallel.partition=[2,4]",
                                      "zero_optimization.stage=1"};
  const auto whole = planned(sets, 4);
  REQUIRE(whole->plan.stages.size() == 2);
  const auto host = [](const Planned& p, size_t stage) { return p.plan.stages[stage].compiled.plan.host().peak_bytes; };
  REQUIRE(host(*whole, 1) > host(*whole, 0));
  for (const bool all : {true, false}) {
    const uint64_t budget =
        all ? std::max(host(*whole, 0), host(*whole, 1)) : std::min(host(*whole, 0), host(*whole, 1));
    std::vector<std::string> with = sets;
    with.push_back(fmt::format("memory.host_budget_bytes={}", budget));
    const auto p = planned(with, 4);
    CHECK(p->plan.fits);
    CHECK(p->plan.saves == (all ? "background" : "foreground"));
    for (const StagePlan& stage : p->plan.stages) CHECK(stage.compiled.set.has("save") == all);
  }
  // Only the stage that lacks room moves anything.
  std::vector<std::string> open = sets;
  const auto device = [](const Planned& p, size_t stage) {
    return p.plan.stages[stage].compiled.plan.device().peak_bytes;
  };
  const uint64_t more = std::max(device(*whole, 0), device(*whole, 1)),
                 less = std::min(device(*whole, 0), device(*whole, 1));
  open.push_back("memory.placement=auto");
  open.push_back(fmt::format("memory.device_budget_bytes={}", (more + less) / 2));
  const auto p = planned(open, 4);
  CHECK(p->plan.fits);
  const size_t larger = device(*whole, 0) > device(*whole, 1) ? 0 : 1;
  CHECK(p->plan.stages[larger].compiled.layout.placement.moves());
  CHECK(!p->plan.stages[1 - larger].compiled.layout.placement.moves());
}

TEST_CASE("stages receive as many messages as there are microbatches, in turns that repeat too") {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    std::vector<uint64_t> first;  // of each stage, with two microbatches
    for (const uint64_t microbatches : {2, 4, 16, 64}) {
      CAPTURE(schedule, microbatches);
      const auto p = planned({std::string("parallel.schedule=") + schedule, "parallel.pipeline=2",
                              std::string("parallel.virtual_pipeline=") + (*schedule == 'i' ? "2" : "1"),
                              "train_micro_batch_size_per_gpu=1", fmt::format("train_batch_size={}", microbatches),
                              "model.layers=4", "zero_optimization.stage=0"},
                             2);
      for (size_t stage = 0; stage < 2; ++stage) {
        const CommBytes& comm = p->plan.stages[stage].comm;
        const auto found = comm.find(OpKind::receive);
        REQUIRE(found != comm.end());
        if (first.size() == stage) first.push_back(found->second);
        CHECK(first[stage] > 0);
        CHECK(found->second * 2 == first[stage] * microbatches);
      }
    }
  }
}

TEST_CASE("a stage keeps gathered weights as long as its device has room, without a budget for a use") {
  const std::vector<std::string> sets{"parallel.pipeline=2",       "parallel.virtual_pipeline=3",
                                      "zero_optimization.stage=3", "train_micro_batch_size_per_gpu=1",
                                      "memory.placement=auto",     "model.layers=22"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = sets;
    all.push_back(more);
    return planned(all, 4);
  };
  uint64_t before = 0;
  for (const GatheredFor longer : {GatheredFor::use, GatheredFor::run, GatheredFor::step}) {
    const std::string name(gathered_for_name(longer));
    const auto asked = with("parallel.gathered_for=" + name);
    uint64_t most = 0;
    for (const StagePlan& stage : asked->plan.stages) most = std::max(most, stage.compiled.plan.device().peak_bytes);
    CAPTURE(name);
    CHECK(most > before);
    before = most;
    const auto open = with(fmt::format("memory.device_budget_bytes={}", most));
    CHECK(open->plan.fits);
    CHECK(open->plan.layout().gathered_for >= longer);
    CHECK(plan_text(asked->plan).find("gathered weights stay for a " + name) != std::string::npos);
  }
  CHECK(planned(sets, 4)->plan.layout().gathered_for == GatheredFor::use);
  const auto least = with(fmt::format("memory.device_budget_bytes={}", before / 4));
  CHECK(least->plan.layout().gathered_for == GatheredFor::use);
}

TEST_CASE("lanes of a pipeline run beside each other where all of its stages have the memory, else they take turns") {
  const std::vector<std::string> sets{"parallel.pipeline=2", "train_micro_batch_size_per_gpu=1",
                                      "zero_optimization.stage=2"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return planned(all, 4);
  };
  const auto most = [](const Planned& p) {
    uint64_t peak = 0;
    for (const StagePlan& stage : p.plan.stages) peak = std::max(peak, stage.compiled.plan.device().peak_bytes);
    return peak;
  };
  const auto beside = with({"zero_optimization.overlap_comm=true"}),
             turns = with({"zero_optimization.overlap_comm=false"});
  REQUIRE(most(*beside) > most(*turns));
  const auto budget = [](uint64_t bytes) { return fmt::format("memory.device_budget_bytes={}", bytes); };
  const auto free = with({}), enough = with({budget(most(*beside))}), short_of = with({budget(most(*beside) - 1)});
  for (const auto* p : {&free, &enough}) {
    CHECK((*p)->plan.fits);
    CHECK(most(**p) == most(*beside));
    for (const StagePlan& stage : (*p)->plan.stages) CHECK(stage.compiled.layout.overlap);
  }
  CHECK(short_of->plan.fits);
  CHECK(most(*short_of) == most(*turns));
  for (const StagePlan& stage : short_of->plan.stages) CHECK(!stage.compiled.layout.overlap);
  CHECK(!planned({}, 4)->plan.layout().overlap);
}

TEST_CASE("a stage whose lanes take turns hands its last gradient on before it reduces its own") {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    for (const int stage : {0, 1}) {
      CAPTURE(schedule, stage);
      const auto p =
          planned({std::string("parallel.schedule=") + schedule, "parallel.pipeline=2",
                   std::string("parallel.virtual_pipeline=") + (*schedule == 'i' ? "2" : "1"),
                   "train_micro_batch_size_per_gpu=1", "zero_optimization.overlap_comm=false",
                   fmt::format("zero_optimization.stage={}", stage), "zero_optimization.reduce_bucket_size=1000"},
                  4);
      for (const StagePlan& each : p->plan.stages) {
        const std::vector<Op>& ops = each.compiled.set.program("step").ops;
        const auto reduces = [](const Op& op) { return op.kind == OpKind::reduce_grad; };
        const auto works = [](const Op& op) { return op.kind == OpKind::send || op.kind == OpKind::backward; };
        const auto first = std::find_if(ops.begin(), ops.end(), reduces);
        REQUIRE(first != ops.end());
        CHECK(std::none_of(first, ops.end(), works));
      }
    }
  }
}

}  // namespace zrt::pipeline_plan_test
