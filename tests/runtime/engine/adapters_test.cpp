// Runs of models with adapters: what lies beside them stays as it is, they have all the states that there are, and no
// choice of a run but its dropout and its cut changes their bits.
#include "catch.h"
#include "optimizer/groups.h"
#include "runtime/plan/setup.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::adapter_runs_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using core::DType;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

models::Model adapted(ModelType type, const Setting& s, float dropout = 0, bool tied = false) {
  models::Adapters adapters{.rank = 4, .alpha = 8};
  adapters.dropout = dropout;
  models::Model model = make_small(
      type, {.layers = 3, .dropout = dropout, .tied = tied, .degrees = {s.tensor, s.rows}, .adapters = adapters});
  model.frozen = optimizer::frozen_names({}, model);
  return model;
}

Setting adapter_setting(unsigned turn) {
  Setting s;
  s.accumulation = s.reduce_every = 2;
  s.steps = 3, s.eval = true;
  s.compute = std::array{DType::f32, DType::bf16, DType::f16}[turn % 3];
  if (s.compute == DType::f16) s.loss_scale.initial = 128;
  s.frozen = std::array<std::optional<core::Form>, 3>{{{}, core::Form::nf4, core::Form::linear8}}[turn / 2 % 3];
  return s;
}

}  // namespace

TEST_CASE("adapters learn beside weights that stay as they were, and have all the states that there are") {
  unsigned turn = 0;
  for (const ModelType type : model_types) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      if (left_to_processor(turn++)) continue;
      Setting s = adapter_setting(0);
      s.compute = compute, s.steps = 6, s.rate = 3e-2;
      const models::Model model = adapted(type, s);
      Setting begun = s;
      begun.steps = 0, begun.eval = false;
      const Outcome start = run(model, begun), outcome = run(model, s);
      CAPTURE(static_cast<int>(type), core::dtype_name(compute));
      size_t adapters = 0;
      for (const auto& [name, values] : outcome.tensors) {
        const bool adapter = name.find(".lora_") != std::string::npos;
        std::vector<float> kept = start.tensors.at(name);
        for (float& value : kept) {
          if (!adapter && compute == DType::bf16) value = core::to_float(core::to_bf16(value));
        }
        INFO(name);
        CHECK((values == kept) == !adapter);
        adapters += adapter ? values.size() : 0;
      }
      const runtime::Layout layout = make_layout(model, s);
      uint64_t states = 0, padded = 0;
      for (const optimizer::Unit& unit : layout.units.units) {
        for (const optimizer::UnitState& kind : s.optimizer->states(unit)) states += kind.bytes_of(unit);
        padded += unit.trained ? static_cast<uint64_t>(unit.elements) : 0;
      }
      CHECK(states == 8 * padded);  // of the two moments
      CHECK(padded >= adapters);
      CHECK(padded - adapters < 64 * 2 * 7 * 3);  // what aligns each matrix of three layers
      CHECK(outcome.measured == outcome.planned);
    }
  }
}

TEST_CASE("adapters change no bit under any stage, unit, placement and lane") {
  unsigned turn = 0;
  for (const ModelType type : model_types) {
    ++turn;
    if (left_to_processor(turn)) continue;
    Setting s = adapter_setting(turn);
    s.ranks = 1 + static_cast<int>(turn % 3);
    const models::Model model = adapted(type, s, turn % 2 == 0 ? 0.2f : 0, turn % 2 == 0);
    const Outcome reference = run(model, s);
    for (s.stage = 0; s.stage < 4; ++s.stage) {
      Setting other = s;
      const unsigned choice = turn * 3 + static_cast<unsigned>(s.stage);
      other.unit_elements = choice & 1 ? 3000 : 100000, other.bucket = choice & 2 ? 1000 : 1 << 20;
      other.overlap = choice & 2, other.serialize = choice & 4, other.persistence = choice & 1 ? 100 : 0;
      const auto all = placings();
      other.placement = choice % 5 == 4 ? nullptr : all[choice % all.size()].place;
      const Recompute kept[] = {Recompute::full, Recompute::selective, Recompute::none, Recompute::never};
      other.recompute = {kept[(choice + turn) % 4]};
      CAPTURE(static_cast<int>(type), s.ranks, s.stage, choice, core::dtype_name(s.compute));
      const Outcome outcome = run(model, other);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.norms == reference.norms);
      CHECK(outcome.eval_loss == reference.eval_loss);
      CHECK(outcome.measured == outcome.planned);
      CHECK(outcome.measured_behind == outcome.planned_behind);
    }
  }
}

TEST_CASE("adapters change no bit in pipelines of every schedule, with ranks that share blocks and rows") {
  unsigned turn = 0;
  for (const ModelType type : model_types) {
    for (const auto& [tensor, rows] : {std::pair{1, false}, {2, false}, {2, true}}) {
      if (left_to_processor(++turn)) continue;
      Setting s = adapter_setting(turn);
      s.accumulation = s.reduce_every = 4, s.micro_batch = 1;
      s.tensor = tensor, s.rows = rows, s.ranks = 1 + static_cast<int>(turn % 2);
      const models::Model model = adapted(type, s, turn % 2 == 0 ? 0.2f : 0);
      const Outcome reference = run(model, s);
      constexpr std::array<std::pair<ScheduleKind, int>, 4> kinds{{{ScheduleKind::one_f_one_b, 1},
                                                                   {ScheduleKind::zb_h1, 1},
                                                                   {ScheduleKind::interleaved, 2},
                                                                   {ScheduleKind::gpipe, 1}}};
      const auto [kind, chunks] = kinds[turn % 4];
      Setting other = s;
      other.stage = static_cast<int>(turn % 3), other.overlap = turn % 2 == 0;
      CAPTURE(static_cast<int>(type), tensor, rows, turn, other.stage);
      const Outcome outcome = run_pipeline(model, other, kind, 2, chunks);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.norms == reference.norms);
      CHECK(outcome.measured == outcome.planned);
    }
  }
}

TEST_CASE("weights in few bits are what a run learns beside that has the same numbers whole") {
  for (const core::Form form : {core::Form::nf4, core::Form::linear8}) {
    for (const int stage : {0, 3}) {
      Setting s;
      s.ranks = 2, s.stage = stage, s.frozen = form;
      const models::Model model = adapted(ModelType::llama, s);
      TemporaryFolder store;
      SavingRun packed(model, s, store.path, false);
      packed.steps(1);
      packed.save();
      const auto folder = packed.saved().folder;
      packed.steps(3);
      const runtime::checkpoint::Reader reader(folder, true);
      Setting whole = s;
      whole.frozen = {};
      SavingRun other(model, whole, store.path / "whole", false, &reader);
      SavingRun again(model, s, store.path / "again", false, &reader);
      other.steps(3), again.steps(3);
      CAPTURE(core::form_name(form), stage);
      CHECK(other.hash() == packed.hash());
      CHECK(again.hash() == packed.hash());
      CHECK(packed.as_planned());
    }
  }
}

TEST_CASE("matrices in four bits take 36 bytes for 64 numbers, and what is trained or small stays as it is") {
  Setting s;
  s.compute = DType::bf16, s.frozen = core::Form::nf4;
  const models::Model model = adapted(ModelType::llama, s);
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    const auto elements = static_cast<uint64_t>(unit.elements);
    const uint64_t bytes = compiled.set.buffers[compiled.state.weight[u]].bytes;
    INFO(unit.name);
    CHECK(bytes == (unit.packed ? elements / 64 * 36 : 2 * elements));
    for (const optimizer::UnitParam& place : unit.params) {
      const std::string& name = place.param->name;
      const bool matrix = name.find("_proj.weight") != std::string::npos;
      CHECK(unit.packed.has_value() == (matrix && name.find(".lora_") == std::string::npos));
    }
  }
}

TEST_CASE("tensor-parallel ranks learn the adapters that one rank learns") {
  for (const ModelType type : {ModelType::gpt2, ModelType::qwen3, ModelType::bert}) {
    Setting s;
    s.steps = 20, s.rate = 1e-2, s.optimizer = make_optimizer(optimizer::SgdParams{}), s.clip = 0;
    const Outcome reference = run(adapted(type, s), s);
    for (const bool rows : {false, true}) {
      Setting shared = s;
      shared.tensor = 2, shared.rows = rows;
      CAPTURE(static_cast<int>(type), rows);
      const Outcome outcome = run(adapted(type, shared), shared);
      CHECK(relative_l2(outcome.weights, reference.weights) < 1e-5);
      CHECK(outcome.losses.back() == Approx(reference.losses.back()).epsilon(1e-6));
    }
  }
}

TEST_CASE("a run with adapters goes on from its checkpoint on another mesh") {
  for (const DType type : {DType::f32, DType::bf16}) {
    Setting s;
    s.compute = type, s.ranks = 2, s.stage = 2, s.accumulation = s.reduce_every = 2;
    const models::Model model = adapted(ModelType::llama, s);
    TemporaryFolder store;
    SavingRun first(model, s, store.path, true);
    first.steps(2);
    first.save();
    const auto folder = first.saved().folder;
    first.steps(2);
    Setting other = s;
    other.stage = 3, other.unit_elements = 2000, other.placement = placings()[2].place;
    const runtime::checkpoint::Reader reader(folder, true);
    SavingRun second(model, other, store.path / "second", false, &reader);
    second.steps(2);
    CAPTURE(core::dtype_name(type));
    CHECK(second.hash() == first.hash());
    CHECK(second.as_planned());
  }
}

TEST_CASE("groups say what trains: frozen weights, and some beside adapters") {
  const auto frozen = [](const std::string& more) {
    const runtime::Config config = runtime::parse_config(
        R"({"train_batch_size": 2, "model": {"preset": "llama-tiny"}, )" + more + "}", "adapters", {}, 1);
    const models::Model model = config.model.make();
    runtime::make_layouts(config, model);
    std::set<std::string> names(model.frozen.begin(), model.frozen.end());
    return std::pair(names, model.canonical_params().size());
  };
  const auto [none, all] = frozen(R"("run": {})");
  CHECK(none.empty());
  const auto [head, same] = frozen(R"("parameter_groups": [{"match": "lm_head*", "trainable": false}])");
  CHECK(head == std::set<std::string>{"lm_head.weight"});
  CHECK(same == all);
  const auto [first, again] = frozen(
      R"("parameter_groups": [{"match": "*layers.0.*", "trainable": true}, {"match": "*", "trainable": false}])");
  CHECK(first.count("model.layers.0.self_attn.q_proj.weight") == 0);
  CHECK(first.count("model.layers.1.self_attn.q_proj.weight") == 1);
  CHECK(first.count("lm_head.weight") == 1);
  const auto [beside, more] = frozen(R"("adapters": {"type": "lora", "targets": ["q_proj"]})");
  CHECK(beside.size() == all);
  CHECK(more == all + 4);  // two layers
  const auto [norms, rest] = frozen(
      R"("adapters": {"type": "lora"}, "parameter_groups": [{"match": "*norm*", "trainable": true, "lr_scale": 0.5}])");
  CHECK(norms.count("model.norm.weight") == 0);
  CHECK(norms.count("model.layers.0.mlp.up_proj.weight") == 1);
  CHECK(rest == all + 2 * 2 * 7);
  CHECK_THROWS_WITH(frozen(R"("parameter_groups": [{"match": "*", "trainable": false}])"),
                    Contains("no parameter is trained"));
  CHECK_THROWS_WITH(frozen(R"("parameter_groups": [{"match": "*", "trainable": false, "lr_scale": 2}])"),
                    Contains("not trainable"));
  CHECK_THROWS_WITH(frozen(R"("parameter_groups": [{"match": "*", "trainable": 0}])"), Contains("'trainable'"));
  CHECK_THROWS_WITH(frozen(R"("adapters": {"type": "lora", "targets": ["q_proj", "w_proj"]})"),
                    Contains("adapters.targets has 'w_proj'") && Contains("self_attn.q_proj"));
  CHECK_THROWS_WITH(frozen(R"("adapters": {"type": "lora", "targets": []})"), Contains("adapters.targets"));
  CHECK_THROWS_WITH(frozen(R"("memory": {"frozen": "nf4"})"), Contains("memory.frozen") && Contains("all are trained"));
  CHECK_THROWS_WITH(frozen(R"("adapters": {"type": "lora"}, "memory": {"frozen": "fp4"})"), Contains("memory.frozen"));
  CHECK_THROWS_WITH(frozen(R"("adapters": {"rank": 8})"), Contains("adapters.rank") && Contains("adapters.type"));
  CHECK_THROWS_WITH(frozen(R"("adapters": {"type": "dora"})"), Contains("adapters.type") && Contains("lora"));
}

}  // namespace zrt::adapter_runs_test
