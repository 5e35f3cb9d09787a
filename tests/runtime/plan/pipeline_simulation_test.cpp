// Compiled pipelines on the clocks of the simulator: the goldens' makespans, with the goldens' times of ops.
#include <nlohmann/json.hpp>

#include "catch.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/simulator.h"
#include "runtime/program/block_plan.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/schedule_goldens.h"
#include "tests/runtime/toy_model.h"

namespace zrt::pipeline_simulation_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

// A block for each chunk that takes time. Where weights come apart, embedding and head take none.
std::vector<Compiled> compiled_golden(const json& golden, ScheduleKind kind, int zero_stage) {
  const int stages = golden["p"], chunks = golden.value("v", 1);
  Setting s;
  s.stage = zero_stage, s.micro_batch = 1, s.ranks = 2;
  s.accumulation = golden["m"];
  s.reduce_every = zero_stage < 2 ? s.accumulation : 1;
  s.overlap = true;
  s.schedule = {kind, stages, static_cast<int32_t>(s.accumulation), chunks, golden.value("G", 1)};
  const bool apart = kind == ScheduleKind::zb_h1;
  const models::Model model = make_toy(stages * chunks - (apart ? 0 : 2), 4, 7, 2, false, false);
  std::vector<size_t> ends = even_ends(model, stages * chunks);
  for (size_t stage = 0; stage < ends.size() && apart; ++stage) {
    ends[stage] = stage + 1 < ends.size() ? stage + 2 : model.blocks.size();
  }
  return Pipeline(model, s, ends).compile(s);
}

double makespan(const json& golden, ScheduleKind kind, int zero_stage, double message = 0) {
  const std::vector<Compiled> compiled = compiled_golden(golden, kind, zero_stage);
  const bool apart = kind == ScheduleKind::zb_h1;
  std::vector<SimulatedStage> simulated;
  simulated.reserve(compiled.size());
  for (const Compiled& stage : compiled) {
    simulated.push_back({&stage.set, &stage.set.program("step"), &stage.layout});
  }
  const double forward = golden["op_time"]["F"], backward = golden["op_time"]["B"];
  const double weights = golden["op_time"].value("W", 0.0);
  const auto all = simulate(
      simulated, nominal_cluster(core::DeviceKind::cpu), Wanted::all, [&](const SimulatedStage& stage, const Op& op) {
        if (op.kind == OpKind::send || op.kind == OpKind::receive) return OpCost{message, Resource::between_hosts};
        if (apart && !BlockPlan(*stage.layout, op.block).weights_apart()) return OpCost{};
        const double back = op.half == models::Half::weight ? weights : backward;
        const double seconds = op.kind == OpKind::forward ? forward : op.kind == OpKind::backward ? back : 0;
        return OpCost{seconds, Resource::compute};
      });
  for (const Simulation& stage : all) {
    // Idle as long as every other one. Messages slow down computation a little.
    const double busy = (forward + backward + weights) * golden["m"].get<double>() * golden.value("v", 1);
    if (message == 0) CHECK(stage.busy_seconds[0] == Approx(busy));
    if (message > 0) CHECK((stage.busy_seconds[0] > busy && stage.busy_seconds[0] < 1.1 * busy));
  }
  return all.front().seconds;
}

// Four layers that two ranks share.
models::Model shared_gpt2(bool rows) {
  return models::make_gpt2(
      {.layers = 4, .hidden = 16, .heads = 4, .sequence = 6, .vocab = 31, .tied = false, .degrees = {2, rows}});
}

}  // namespace

TEST_CASE("compiled pipelines take as long as the goldens of their schedules say, where only blocks take time") {
  for (const auto& [name, kind] : {std::pair{"gpipe", ScheduleKind::gpipe},
                                   {"1f1b", ScheduleKind::one_f_one_b},
                                   {"zb-h1", ScheduleKind::zb_h1},
                                   {"interleaved", ScheduleKind::interleaved}}) {
    for (const json& golden : schedule_goldens()[name]) {
      if (golden["p"] == 1) continue;
      for (const int zero_stage : {0, 3}) {
        CAPTURE(name, golden["p"].get<int>(), golden["m"].get<int>(), golden.value("v", 1), golden.value("G", 1),
                zero_stage);
        CHECK(makespan(golden, kind, zero_stage) == Approx(golden["makespan"].get<double>()));
      }
    }
  }
}

TEST_CASE("compiled pipelines whose weights come apart are idle as long as the goldens of uneven costs say") {
  for (const json& golden : schedule_goldens()["zb-h1_uneven_costs"]["cases"]) {
    CAPTURE(golden.dump());
    CHECK(makespan(golden, ScheduleKind::zb_h1, 1) == Approx(golden["makespan"].get<double>()));
  }
}

TEST_CASE("where weights come apart as many microbatches are on their way through every stage as the goldens say") {
  for (const json& golden : schedule_goldens()["zb-h1"]) {
    if (golden["p"] == 1) continue;
    const int stages = golden["p"], microbatches = golden["m"];
    for (const int zero_stage : {0, 3}) {
      const std::vector<Compiled> compiled = compiled_golden(golden, ScheduleKind::zb_h1, zero_stage);
      for (int stage = 0; stage < stages; ++stage) {
        CAPTURE(stages, microbatches, zero_stage, stage);
        const ProgramSet& set = compiled[static_cast<size_t>(stage)].set;
        const Layout& layout = compiled[static_cast<size_t>(stage)].layout;
        const Program& step = set.program("step");
        int kept = 0, held = 0, most_kept = 0, most_on_way = 0;
        for (const Segment& segment : step.segments) {
          for (uint32_t turn = 0; turn < segment.repeat; ++turn) {
            for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
              const Op& op = step.ops[id];
              if (!runs_block(op.kind) || !BlockPlan(layout, op.block).weights_apart()) continue;
              if (op.kind == OpKind::forward) ++kept;
              if (op.kind == OpKind::backward) op.half == models::Half::input ? (--kept, ++held) : --held;
              most_kept = std::max(most_kept, kept), most_on_way = std::max(most_on_way, kept + held);
            }
          }
        }
        CHECK(most_on_way == golden["peak_live_until_W"][static_cast<size_t>(stage)].get<int>());
        CHECK(most_on_way == std::min(stages, microbatches));
        for (const Buffer& buffer : set.buffers) {
          const auto slots = static_cast<int>(buffer.slots);
          if (buffer.name.starts_with("saved of linear")) CHECK(slots == most_kept);
          if (buffer.name.starts_with("held of linear")) CHECK(slots == std::min(stage + 1, microbatches));
        }
        CHECK(most_kept == std::min(stages - stage, microbatches));
      }
    }
  }
}

// Two layers a stage, of which each exchanges twice forward and twice backward, sharing rows three times more.
TEST_CASE("ranks that share the blocks of a pipeline meet in their own stage, and their exchanges take their time") {
  for (const bool rows : {false, true}) {
    for (const uint32_t microbatches : {1u, 4u}) {
      Setting s;
      s.tensor = 2, s.rows = rows, s.ranks = 2, s.micro_batch = 1, s.accumulation = s.reduce_every = microbatches;
      s.schedule.stages = 2;
      const models::Model model = shared_gpt2(rows);
      const Pipeline pipeline(model, s, {3, 6});
      const std::vector<Compiled> compiled = pipeline.compile(s);
      std::vector<SimulatedStage> simulated;
      simulated.reserve(compiled.size());
      for (const Compiled& stage : compiled) {
        simulated.push_back({&stage.set, &stage.set.program("step"), &stage.layout});
      }
      const auto all = simulate(simulated, nominal_cluster(core::DeviceKind::cpu), Wanted::all,
                                [&](const SimulatedStage& stage, const Op& op) {
                                  const models::Model& blocks = *stage.layout->model;
                                  const bool layer = !blocks.embeds(op.block) && !blocks.predicts(op.block);
                                  const bool counts = op.kind == OpKind::exchange && layer;
                                  return OpCost{counts ? 1.0 : 0.0, Resource::compute};
                                });
      const double forward = 2 * (rows ? 4 : 2), backward = 2 * (rows ? 6 : 2);
      CAPTURE(rows, microbatches);
      for (const Simulation& stage : all) CHECK(stage.seconds == Approx((microbatches + 1) * (forward + backward)));
    }
  }
}

// Each exchange of a layer takes as long as half of the backward of its attention or MLP.
TEST_CASE("exchanges of gradients take no time beside the products of weights") {
  for (const bool rows : {false, true}) {
    double seconds[2];
    for (const bool overlap : {false, true}) {
      Setting s;
      s.tensor = 2, s.rows = rows, s.micro_batch = 1, s.accumulation = s.reduce_every = 4, s.overlap = overlap;
      const models::Model model = shared_gpt2(rows);
      const Compiled compiled = compile(make_layout(model, s), {"init", "step"});
      const std::vector<SimulatedStage> simulated{{&compiled.set, &compiled.set.program("step"), &compiled.layout}};
      const auto cost = [&](const SimulatedStage& stage, const Op& op) {
        const models::Model& blocks = *stage.layout->model;
        if (blocks.embeds(op.block) || blocks.predicts(op.block)) return OpCost{};
        const models::Anatomy& anatomy = blocks.blocks[op.block]->anatomy();
        if (op.kind == OpKind::exchange) return OpCost{1, Resource::inside_host};
        const bool products = op.kind == OpKind::backward && anatomy.halves(op.parts);
        return OpCost{!products ? 0.0 : op.half == models::Half::both ? 2.0 : 1.0, Resource::compute};
      };
      Cluster cluster = nominal_cluster(core::DeviceKind::cpu);
      cluster.overlap_inside = {1, 1};
      seconds[overlap] = simulate(simulated, cluster, Wanted::all, cost).front().seconds;
    }
    // A layer takes 2 (sharing rows 4) forward, then 2 x 3 (2 x 5) in its two runs backward, with overlap 2 x 2 (2 x
    // 3).
    CAPTURE(rows);
    CHECK(seconds[false] == Approx(4 * 4 * (rows ? 14 : 8)));
    CHECK(seconds[true] == Approx(4 * 4 * (rows ? 10 : 6)));
  }
}

// A layer's backward comes in five pieces, of which four take 1; the reduction of its gradients takes 3.
TEST_CASE("the gradients of a layer are reduced beside the whole backward of the next one, whatever pieces that has") {
  Setting s;
  s.tensor = 2, s.ranks = 2, s.stage = 2, s.micro_batch = 1, s.accumulation = s.reduce_every = 1, s.overlap = true;
  const models::Model model = shared_gpt2(false);
  const Compiled compiled = compile(make_layout(model, s), {"init", "step"});
  const std::vector<SimulatedStage> simulated{{&compiled.set, &compiled.set.program("step"), &compiled.layout}};
  const auto cost = [&](const SimulatedStage& stage, const Op& op) {
    const bool data = stage.set->group(op).axes == data_axes;
    if (op.kind == OpKind::reduce_grad && data) return OpCost{3, Resource::inside_host};
    const models::Anatomy& anatomy = stage.layout->model->blocks[op.block]->anatomy();
    const bool layer = !stage.layout->model->embeds(op.block) && !stage.layout->model->predicts(op.block);
    return OpCost{op.kind == OpKind::backward && layer && anatomy.halves(op.parts) ? 1.0 : 0.0, Resource::compute};
  };
  Cluster cluster = nominal_cluster(core::DeviceKind::cpu);
  cluster.overlap_inside = {1, 1};
  // Two reductions are left at the end: the last layer's and the embedding's.
  CHECK(simulate(simulated, cluster, Wanted::all, cost).front().seconds == Approx(4 * 4 + 2 * 3));
}

TEST_CASE("a step of tensor-parallel stages takes longer where these ranks lie on other hosts") {
  Setting s;
  s.tensor = 2, s.micro_batch = 1, s.accumulation = s.reduce_every = 4, s.schedule.stages = 2;
  const models::Model model = models::make_gpt2(
      {.layers = 4, .hidden = 64, .heads = 4, .sequence = 64, .vocab = 64, .tied = false, .degrees = {2}});
  const std::vector<Compiled> compiled = Pipeline(model, s, {3, 6}).compile(s);
  std::vector<double> seconds;
  for (const int ranks_per_host : {4, 2, 1}) {
    Cluster cluster = nominal_cluster(core::DeviceKind::cpu);
    cluster.ranks_per_host = ranks_per_host;
    cluster.between_hosts = Link{1e-3, 1e6};
    const std::vector<Simulation> stages = simulate_step(compiled, cluster);
    REQUIRE(stages.size() == 2);
    CHECK(stages[0].exposed_comm_seconds > 0);
    seconds.push_back(stages[0].seconds);
  }
  // One host; stages on hosts of their own; every rank on its own.
  CHECK(seconds[0] < seconds[1]);
  CHECK(2 * seconds[1] < seconds[2]);
}

// Messages of a quarter of a forward: what is not hidden is what fills and empties the pipeline.
TEST_CASE("an interleaved stage receives beside its work: slots that chunks share leave one free for it") {
  for (const json& golden : schedule_goldens()["interleaved"]) {
    CAPTURE(golden["p"].get<int>(), golden["m"].get<int>(), golden["v"].get<int>(), golden["G"].get<int>());
    CHECK(makespan(golden, ScheduleKind::interleaved, 0, 0.25) < 1.12 * golden["makespan"].get<double>());
  }
}

// The last stage makes outputs for the first one as long before they are needed as a group is longer than the pipeline.
TEST_CASE("interleaved pipelines of groups far longer than the pipeline are compiled and never stand still") {
  const models::Model model = make_toy(10, 4, 7, 2, false, false);
  for (const int chunks : {2, 3}) {
    for (const int group : {7, 8, 12, 16}) {
      for (const int microbatches : {group, 2 * group}) {
        for (const bool offload : {false, true}) {
          Setting s;
          s.micro_batch = 1, s.accumulation = s.reduce_every = static_cast<uint32_t>(microbatches), s.overlap = true;
          s.schedule = {ScheduleKind::interleaved, 2, microbatches, chunks, group};
          if (offload) {
            using core::Tier;
            s.placement = [](const Layout& layout) {
              return uniform(layout, Tier::device, Tier::device, Tier::device, Tier::device, Tier::host, Tier::device);
            };
          }
          CAPTURE(chunks, group, microbatches, offload);
          std::vector<Compiled> compiled;
          REQUIRE_NOTHROW(compiled = Pipeline(model, s, even_ends(model, 2 * chunks)).compile(s));
          // Inputs that come early stay on the device, whatever the tier of other activations.
          for (const Compiled& stage : compiled) {
            const bool early = stage.layout.stage.index == 0 && stage.layout.stage.early() > 0;
            for (const Buffer& buffer : stage.set.buffers) {
              if (!buffer.name.starts_with("input of ") || buffer.name.find(" on the device") != buffer.name.npos)
                continue;
              CAPTURE(buffer.name, stage.layout.stage.index);
              CHECK((buffer.tier == core::Tier::host) == (offload && !early));
            }
          }
        }
      }
    }
  }
}

// All layers of a toy save alike; every chunk has one, the outer ones of the model embedding or head besides.
TEST_CASE("an interleaved stage has slots for as many microbatches as its golden has alive, over all its chunks") {
  for (const json& golden : schedule_goldens()["interleaved"]) {
    const int stages = golden["p"], chunks = golden["v"];
    Setting s;
    s.micro_batch = 1, s.accumulation = s.reduce_every = golden["m"];
    s.schedule = {ScheduleKind::interleaved, stages, static_cast<int32_t>(s.accumulation), chunks, golden["G"]};
    const models::Model model = make_toy(stages * chunks, 4, 7, 2, false, false);
    std::vector<size_t> ends;
    for (size_t chunk = 0; chunk + 1 < static_cast<size_t>(stages * chunks); ++chunk) ends.push_back(chunk + 2);
    ends.push_back(model.blocks.size());
    const std::vector<Compiled> compiled = Pipeline(model, s, ends).compile(s);
    for (size_t stage = 0; stage < compiled.size(); ++stage) {
      const auto alive = golden["peak_live_chunks"][stage].get<uint32_t>();
      const auto warm_up = golden["warmup_forwards"][stage].get<uint32_t>();
      CAPTURE(stages, chunks, s.accumulation, golden["G"].get<int>(), stage);
      CHECK(alive == std::min(warm_up + 1, s.accumulation * static_cast<uint32_t>(chunks)));
      size_t pools = 0, inputs = 0;
      for (const Buffer& buffer : compiled[stage].set.buffers) {
        if (buffer.name.starts_with("input of ")) ++inputs;
        if (buffer.slot_table.empty() || !buffer.name.starts_with("saved of ")) continue;
        CHECK(buffer.slots == alive);
        ++pools;
      }
      // A ring of its own holds what the outer chunks of the model save besides.
      CHECK(pools == 1);
      CHECK(inputs == 1);
    }
  }
}

}  // namespace zrt::pipeline_simulation_test
