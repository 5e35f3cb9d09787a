// Parameters that training leaves as they are: they have weights and nothing else, and the others learn the same bits
// whatever else a run chooses.
#include <fnmatch.h>

#include <algorithm>

#include "catch.h"
#include "optimizer/groups.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/setup.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::frozen_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using core::DType;
using runtime::Recompute;
using runtime::ScheduleKind;
using Patterns = std::vector<std::string>;

namespace {

models::Model with_frozen(models::Model model, const Patterns& patterns) {
  for (const auto& ref : model.canonical_params()) {
    const std::string& name = model.blocks[ref.block]->params()[ref.index].name;
    const auto takes = [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    if (std::any_of(patterns.begin(), patterns.end(), takes)) model.frozen.insert(name);
  }
  REQUIRE(!model.frozen.empty());
  REQUIRE(model.frozen.size() < model.canonical_params().size());
  return model;
}

models::Model small(ModelType type, const Setting& s, float dropout = 0.1f, bool tied = true, int64_t layers = 2) {
  return make_small(type, {.layers = layers, .dropout = dropout, .tied = tied, .degrees = {s.tensor, s.rows}});
}

// All matrices, as with adapters; all but a matrix; a whole layer; what the first and the last block read; norms.
Patterns frozen_of(ModelType type, size_t number) {
  const bool gpt2 = type == ModelType::gpt2, bert = type == ModelType::bert || type == ModelType::megatron_bert;
  switch (number % 5) {
    case 0:
      return gpt2   ? Patterns{"*.attn.*.weight", "*.mlp.*.weight", "wpe*"}
             : bert ? Patterns{"*.dense.weight", "*.self.*.weight", "*predictions.decoder*", "*pooler*"}
                    : Patterns{"*_proj.weight"};
    case 1:
      return gpt2   ? Patterns{"wte*", "wpe*", "h.0.*", "h.1.ln*", "h.1.attn*", "ln_f*"}
             : bert ? Patterns{"*embeddings*", "*layer.0.*", "*LayerNorm*", "*.attention.*"}
                    : Patterns{"*embed_tokens*", "*layers.0.*", "*norm*", "*self_attn.[qkv]_proj*"};
    case 2:
      return gpt2 ? Patterns{"h.1.*"} : bert ? Patterns{"*layer.1.*"} : Patterns{"*layers.1.*"};
    case 3:
      return gpt2   ? Patterns{"wte*", "wpe*", "ln_f*"}
             : bert ? Patterns{"*embeddings*", "*predictions*", "*seq_relationship*"}
                    : Patterns{"*embed_tokens*", "lm_head*", "model.norm*"};
    default:
      return gpt2 ? Patterns{"*.ln_*", "*.bias"} : bert ? Patterns{"*LayerNorm*", "*.bias"} : Patterns{"*norm*"};
  }
}

Setting setting_of(unsigned turn) {
  Setting s;
  s.accumulation = s.reduce_every = 2;
  s.steps = 3, s.eval = true;
  s.compute = std::array{DType::f32, DType::bf16, DType::f16}[turn % 3];
  if (s.compute == DType::f16) s.loss_scale.initial = 128;
  s.master = s.compute != DType::bf16 || turn % 2 == 0;
  return s;
}

void check_equal(const Outcome& outcome, const Outcome& reference) {
  CHECK(outcome.state == reference.state);
  CHECK(outcome.losses == reference.losses);
  CHECK(outcome.norms == reference.norms);
  CHECK(outcome.eval_loss == reference.eval_loss);
  CHECK(outcome.measured == outcome.planned);
  CHECK(outcome.measured_behind == outcome.planned_behind);
  CHECK(outcome.file_agrees);
}

}  // namespace

TEST_CASE("frozen parameters stay as they began, and the others learn what they do where theirs have a rate of zero") {
  for (const ModelType type : model_types) {
    for (size_t number = 0; number < 5; ++number) {
      Setting s = setting_of(number % 2 == 0 ? 0 : 1);
      s.clip = 0;  // the norm of the whole gradient differs
      s.master = true;
      const bool tied = number % 2 == 0;
      const models::Model all = small(type, s, 0.1f, tied);
      const models::Model some = with_frozen(all, frozen_of(type, number));
      Setting begun = s;
      begun.steps = 0, begun.eval = false;
      const Outcome start = run(all, begun), frozen = run(some, s);
      s.optimizer = optimizer::make_grouped(s.optimizer, {{frozen_of(type, number), {}, 0}});
      const Outcome slow = run(all, s);
      CAPTURE(static_cast<int>(type), number, tied);
      CHECK(frozen.losses == slow.losses);
      CHECK(frozen.norms.back() < slow.norms.back());
      bool moved = false;
      for (const auto& [name, values] : frozen.tensors) {
        INFO(name);
        if (!some.frozen.contains(name)) {
          CHECK(values == slow.tensors.at(name));
          moved = moved || values != start.tensors.at(name);
          continue;
        }
        std::vector<float> kept = start.tensors.at(name);
        for (float& value : kept) value = s.compute == DType::bf16 ? core::to_float(core::to_bf16(value)) : value;
        CHECK(values == kept);
      }
      CHECK(moved);
    }
  }
}

TEST_CASE("frozen parameters change no bit under any stage, unit, placement and lane") {
  unsigned turn = 0;
  for (const ModelType type : model_types) {
    for (unsigned number = 0; number < 5; ++number) {
      ++turn;
      if (left_to_processor(turn)) continue;
      Setting s = setting_of(turn);
      s.ranks = 1 + static_cast<int>(turn % 3);
      const models::Model model = with_frozen(small(type, s, 0.1f, turn % 2 == 0), frozen_of(type, number));
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
        CAPTURE(static_cast<int>(type), number, s.ranks, s.stage, choice, core::dtype_name(s.compute), s.master);
        check_equal(run(model, other), reference);
      }
    }
  }
}

TEST_CASE("frozen parameters change no bit on tensor-parallel ranks and in pipelines of every schedule") {
  unsigned turn = 0;
  for (const ModelType type : model_types) {
    for (const auto& [tensor, rows] : {std::pair{1, false}, {2, false}, {2, true}, {3, true}}) {
      for (unsigned number = 0; number < 5; ++number) {
        if (++turn % 2 != 0 && !full_tests()) continue;
        if (left_to_processor(turn)) continue;
        Setting s = setting_of(turn);
        s.accumulation = s.reduce_every = 4, s.micro_batch = 1;
        s.tensor = tensor, s.rows = rows, s.ranks = 1 + static_cast<int>(turn % 2);
        const bool tied = number % 2 == 1;  // stages add up gradients of what both have in another order
        const models::Model model = with_frozen(small(type, s, 0.1f, tied, 3), frozen_of(type, number));
        const Outcome reference = run(model, s);
        constexpr std::array<std::pair<ScheduleKind, int>, 4> kinds{{{ScheduleKind::one_f_one_b, 1},
                                                                     {ScheduleKind::zb_h1, 1},
                                                                     {ScheduleKind::interleaved, 2},
                                                                     {ScheduleKind::gpipe, 1}}};
        const auto [kind, chunks] = kinds[turn % 4];
        Setting other = s;
        other.stage = static_cast<int>(turn % 3), other.overlap = turn % 2 == 0;
        CAPTURE(static_cast<int>(type), tensor, rows, number, turn, tied, other.stage);
        const Outcome outcome = run_pipeline(model, other, kind, 2, chunks);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.norms == reference.norms);
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("frozen parameters go with every optimizer, and with updates as soon as gradients are there") {
  unsigned turn = 0;
  for (const optimizer::OptimizerPtr& optimizer :
       {adafactor(false), adafactor(true), muon(), make_optimizer(optimizer::LionParams{}),
        make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, optimizer::Moments::int8})}) {
    for (unsigned number = 0; number < 5; ++number) {
      if (left_to_processor(++turn)) continue;
      Setting s = setting_of(turn);
      s.optimizer = optimizer, s.ranks = 2;
      s.master = s.master || optimizer->shares_sums();  // which the sums are of
      const ModelType type = turn % 2 == 0 ? ModelType::gpt2 : ModelType::qwen3;
      const models::Model model = with_frozen(small(type, s), frozen_of(type, number));
      const Outcome reference = run(model, s);
      s.stage = static_cast<int>(turn % 4), s.overlap = true;
      const auto all = placings();
      s.placement = with_exchanges_on_the_device(all[turn % all.size()].place);
      CAPTURE(turn, number, s.stage);
      check_equal(run(model, s), reference);
      s.late_updates = true;
      check_equal(run(model, s), reference);
      s.late_updates = false;
      if (optimizer->shares_sums()) continue;
      s.clip = 0;
      const Outcome late = run(model, s);
      s.early_updates = true;
      check_equal(run(model, s), late);
    }
  }
}

TEST_CASE("a frozen unit has weights and nothing else") {
  for (const DType type : {DType::f32, DType::bf16}) {
    Setting s;
    s.compute = type, s.ranks = 2, s.unit_elements = 3000, s.accumulation = s.reduce_every = 2;
    const models::Model model = with_frozen(small(ModelType::llama, s), frozen_of(ModelType::llama, 0));
    for (s.stage = 0; s.stage < 4; ++s.stage) {
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "eval", "export", "save"});
      uint64_t weights = 0, others = 0, expected_weights = 0, expected_others = 0;
      for (size_t u = 0; u < layout.units.units.size(); ++u) {
        const optimizer::Unit& unit = layout.units.units[u];
        const auto bytes = [&](core::DType of, optimizer::Extent held) {
          return static_cast<uint64_t>(unit.extent(held)) * core::dtype_size(of);
        };
        const auto of = [&](runtime::BufferId id) {
          return id == runtime::no_buffer ? 0 : compiled.set.buffers[id].bytes;
        };
        weights += of(compiled.state.weight[u]);
        others += of(compiled.state.grad[u]) + of(compiled.state.master[u]);
        for (const runtime::BufferId id : compiled.state.states[u]) others += of(id);
        expected_weights += bytes(type, unit.held.weights);
        for (const optimizer::UnitParam& place : unit.params) CHECK(unit.trained == model.trains(*place.param));
        if (!unit.trained) continue;
        expected_others += bytes(layout.grad, unit.held.grads) + 2 * bytes(DType::f32, unit.held.states);
        if (type != DType::f32) expected_others += bytes(DType::f32, unit.held.states);
      }
      CAPTURE(core::dtype_name(type), s.stage);
      CHECK(weights == expected_weights);
      CHECK(others == expected_others);
    }
  }
}

TEST_CASE("an op that changes a frozen unit is refused") {
  Setting s;
  s.ranks = 2, s.stage = 2;
  const models::Model model = with_frozen(small(ModelType::llama, s), frozen_of(ModelType::llama, 0));
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
  const auto& units = layout.units.units;
  const auto frozen = std::find_if(units.begin(), units.end(), [](const auto& unit) { return !unit.trained; });
  const auto number = static_cast<uint32_t>(frozen - units.begin());
  for (const runtime::OpKind kind :
       {runtime::OpKind::norm, runtime::OpKind::update, runtime::OpKind::reduce_grad, runtime::OpKind::backward}) {
    runtime::ProgramSet set = compiled.set;
    std::vector<runtime::Op>& ops = set.programs[1].ops;
    const auto op = std::find_if(ops.begin(), ops.end(), [&](const runtime::Op& each) {
      return each.kind == kind && (kind != runtime::OpKind::backward || each.accumulate.size() < each.units.size());
    });
    REQUIRE(op != ops.end());
    if (kind == runtime::OpKind::backward) {
      op->accumulate.push_back(0);
      CHECK_THROWS_WITH(runtime::verify(set, layout), Contains(op->name) && Contains("whether it adds"));
      continue;
    }
    op->units = {number};
    CHECK_THROWS_WITH(runtime::verify(set, layout),
                      Contains(op->name) && Contains(frozen->name) && Contains("which is frozen"));
  }
}

TEST_CASE("the backward of a frozen block costs what its gradients of inputs do") {
  Setting s;
  const models::Model all = small(ModelType::gpt2, s), some = with_frozen(all, {"h.1.*"});
  const runtime::Cluster& cluster = runtime::nominal_cluster(core::DeviceKind::cuda);
  const auto cost = [&](const models::Model& model, models::Half half) {
    const runtime::Layout layout = make_layout(model, s);
    const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
    for (runtime::Op op : compiled.set.program("step").ops) {
      if (op.kind != runtime::OpKind::backward || model.blocks[op.block]->name() != "h.1") continue;
      op.half = half;
      std::erase_if(op.accesses,
                    [](const runtime::Access& access) { return access.role == runtime::Role::local_grad; });
      return runtime::op_cost(compiled.set, op, layout, cluster).seconds;
    }
    return 0.0;
  };
  CHECK(cost(some, models::Half::both) == Approx(cost(all, models::Half::input)).epsilon(1e-12));
  CHECK(cost(some, models::Half::both) < cost(all, models::Half::both));
  CHECK(all.flops_per_token() - some.flops_per_token() == 2.0 * (12 * 48 * 48 + 13 * 48));
}

TEST_CASE("a share of optimizer states counts what is trained, and a name that the model lacks is refused") {
  const runtime::Config config = runtime::parse_config(
      R"({"train_batch_size": 2, "model": {"preset": "gpt2-tiny"}, "bf16": {"enabled": true}, "memory": {"unit_bytes": 4096},
          "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})",
      "frozen", {}, 2);
  models::Model model = config.model.make();
  model.frozen = {"wte.weight", "wpe.weight"};
  const runtime::Layout layout = runtime::make_layouts(config, model).front();
  int64_t trained = 0, moved = 0;
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    const runtime::UnitTiers tiers = layout.placement.tiers(u);
    CHECK((unit.trained || tiers.states.empty()));
    trained += unit.trained ? unit.parameters() : 0;
    moved += unit.trained && tiers.master == core::Tier::host ? unit.parameters() : 0;
  }
  CHECK(2 * moved >= trained);
  CHECK(moved < trained);
  model.frozen.insert("h.0.attn.c_attn.weigth");
  CHECK_THROWS_WITH(runtime::make_layouts(config, model),
                    Contains("'h.0.attn.c_attn.weigth', which it does not have") && Contains("'wte.weight'"));
}

TEST_CASE("a run with frozen parameters goes on from its checkpoint on another mesh") {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool background : {false, true}) {
      Setting s;
      s.compute = type, s.ranks = 2, s.stage = 2, s.accumulation = s.reduce_every = 2;
      if (type == DType::f16) s.loss_scale.initial = 128;
      const models::Model model = with_frozen(small(ModelType::gpt2, s), frozen_of(ModelType::gpt2, 1));
      TemporaryFolder store;
      SavingRun first(model, s, store.path, background);
      first.steps(2);
      first.save();
      const auto folder = first.saved().folder;
      first.steps(2);
      Setting other = s;
      other.ranks = 2, other.stage = 3, other.unit_elements = 2000;
      other.placement = placings()[2].place;
      const runtime::checkpoint::Reader reader(folder, true);
      SavingRun second(model, other, store.path / "second", !background, &reader);
      second.steps(2);
      CAPTURE(core::dtype_name(type), background);
      CHECK(second.hash() == first.hash());
      CHECK(second.tensors() == first.tensors());
      CHECK(second.as_planned());
    }
  }
}

}  // namespace zrt::frozen_test
