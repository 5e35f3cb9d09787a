// Loads of experts are the same however many ranks share the work of a step, and in whichever way.
#include "runtime/train/telemetry/expert_loads.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.h"
#include "runtime/program/expert_loads.h"
#include "runtime/train/telemetry/metrics.h"
#include "tests/runtime/pipeline.h"

namespace zrt::expert_loads_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::LayerLoads;
using runtime::ScheduleKind;
using Loads = std::vector<LayerLoads>;

namespace {

constexpr int64_t sequence = 24, samples = 16;  // of a step

// Llama's layers all have experts, some of whose picks are dropped; every second one of GPT-2's has two prototypes.
models::Model make_model(bool llama, const Setting& s) {
  const models::Degrees degrees{s.tensor, s.rows, s.expert};
  if (llama) {
    models::LlamaConfig config;
    config.layers = 4, config.hidden = 48, config.heads = 4, config.kv_heads = 2, config.ffn = 80;
    config.sequence = sequence, config.vocab = 61, config.tied = false, config.degrees = degrees;
    config.experts = {.number = 4, .ffn = 40, .top_k = 2, .capacity_factor = 0.9, .normalised = true};
    return models::make_llama(config);
  }
  models::Gpt2Config config;
  config.layers = 4, config.hidden = 48, config.heads = 4, config.sequence = sequence, config.vocab = 61;
  config.tied = false, config.degrees = degrees;
  config.experts = {.number = 6, .ffn = 40, .prototypes = 2, .every = 2};
  return models::make_gpt2(config);
}

uint64_t sum_of(const Loads& loads, uint64_t models::ExpertLoad::*what) {
  uint64_t sum = 0;
  for (const LayerLoads& layer : loads) {
    for (const models::ExpertLoad& load : layer.experts) sum += load.*what;
  }
  return sum;
}

// Loads of each of two steps. They are what routers told the control block, and memory is as planned.
std::vector<Loads> loads_of(bool llama, Setting s, ScheduleKind kind = ScheduleKind::one_f_one_b, int stages = 1,
                            int chunks = 1) {
  s.accumulation = static_cast<uint32_t>(samples / s.micro_batch / s.ranks), s.reduce_every = s.accumulation;
  s.schedule.kind = kind, s.schedule.stages = stages, s.schedule.chunks = chunks;
  s.schedule.group = chunks > 1 ? stages : 1;
  const models::Model model = make_model(llama, s);
  const Pipeline pipeline(model, s, even_ends(model, stages * chunks));
  const runtime::Layout& layout = pipeline.layouts.front();
  uint32_t step = 0;
  runtime::SessionHooks hooks;
  hooks.batch = [&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
    synthetic_batch(layout, step, rank, microbatch, to);
  };
  runtime::Session session(pipeline.compile(s), session_options(s), hooks);
  CHECK(runtime::has_experts(session));
  session.run("init", {});
  std::vector<Loads> all;
  for (; step < 2; ++step) {
    session.run("step", {s.seed, step, 0, {s.rate}});
    all.push_back(runtime::read_expert_loads(session));
    const models::RouterTally& tally = session.executor(0).control().all_routers;
    CHECK(sum_of(all.back(), &models::ExpertLoad::picked) == tally.choices);
    CHECK(sum_of(all.back(), &models::ExpertLoad::dropped) == tally.dropped);
  }
  for (int rank = 0; rank < session.local_count(); ++rank) {
    CHECK(session.arena(rank).highest_touched() == session.stage(rank).plan.device().peak_bytes);
  }
  return all;
}

Setting setting(int ranks, int stage) {
  Setting s;
  s.ranks = ranks, s.stage = stage;
  return s;
}

}  // namespace

TEST_CASE("Every token's picks are in the loads of its step, layer by layer, and none of another step's") {
  for (const bool llama : {true, false}) {
    const std::vector<Loads> all = loads_of(llama, setting(1, 0));
    for (const Loads& loads : all) {
      REQUIRE(loads.size() == (llama ? 4 : 2));
      for (size_t i = 0; i < loads.size(); ++i) {
        CHECK(loads[i].layer == static_cast<int64_t>(llama ? i : 2 * i + 1));
        CHECK(loads[i].experts.size() == (llama ? 4 : 6));
        CHECK(sum_of({loads[i]}, &models::ExpertLoad::picked) == sequence * samples * 2);
      }
      CHECK((sum_of(loads, &models::ExpertLoad::dropped) > 0) == llama);
    }
    CHECK(all[0] != all[1]);
  }
}

TEST_CASE("Loads of experts are the same counts however ranks share a step") {
  Setting shared = setting(1, 1), rows = shared, spread = setting(2, 1), again = setting(2, 3);
  shared.tensor = rows.tensor = spread.expert = 2, rows.rows = true;
  again.recompute = {runtime::Recompute::full}, again.overlap = true;
  struct Case {
    Setting setting;
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    int stages = 1, chunks = 1;
  };
  const std::vector<Case> cases{{setting(2, 2)},
                                {setting(4, 3)},
                                {spread},
                                {shared},
                                {rows},
                                {again},
                                {setting(2, 1), ScheduleKind::one_f_one_b, 2},
                                {setting(1, 0), ScheduleKind::interleaved, 2, 2},
                                {shared, ScheduleKind::zb_h1, 2},
                                {setting(1, 2), ScheduleKind::zb_h1, 3}};
  for (const bool llama : {true, false}) {
    // Later steps have the roundings of sums of gradients.
    const Loads expected = loads_of(llama, setting(1, 0)).front();
    unsigned turn = 0;
    for (const Case& c : cases) {
      if (left_to_processor(++turn)) continue;
      INFO("Llama's " << llama << ", case " << turn);
      CHECK(loads_of(llama, c.setting, c.kind, c.stages, c.chunks).front() == expected);
    }
  }
}

TEST_CASE("The buffer of loads is a model's with experts alone, and a training's") {
  for (const bool llama : {true, false}) {
    const models::Model model = make_model(llama, {});
    const runtime::Layout layout = make_layout(model, {});
    const uint64_t bytes = (llama ? 4 * 4 : 2 * 6) * sizeof(models::ExpertLoad);
    CHECK(runtime::expert_load_bytes(model) == bytes);
    const auto buffers = [&](const std::vector<std::string>& phases) {
      std::vector<runtime::Buffer> found;
      for (const runtime::Buffer& buffer : runtime::compile(layout, phases).set.buffers) {
        if (buffer.name == runtime::expert_loads) found.push_back(buffer);
      }
      return found;
    };
    const std::vector<runtime::Buffer> training = buffers({"init", "step", "eval"});
    REQUIRE(training.size() == 1);
    CHECK(training[0].bytes == bytes);
    CHECK(training[0].category == core::Category::staging);
    CHECK(training[0].tier == core::Tier::device);
    CHECK(buffers({"load", "eval"}).empty());
  }
  models::Gpt2Config dense;
  dense.layers = 1, dense.hidden = 16, dense.heads = 2, dense.sequence = 8, dense.vocab = 31;
  CHECK(runtime::expert_load_bytes(models::make_gpt2(dense)) == 0);
}

TEST_CASE("A line of loads has the layers and, of each, what came to its experts") {
  const Loads loads{{1, {{5, 1}, {0, 0}}}, {3, {{2, 0}, {3, 2}}}};
  CHECK(runtime::to_json_line(7, loads) ==
        R"({"step":7,"layers":[1,3],"picked":[[5,0],[2,3]],"dropped":[[1,0],[0,2]]})");
}

}  // namespace zrt::expert_loads_test
