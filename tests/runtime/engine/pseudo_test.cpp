// Layers that share their parameters train: the same bits whatever else a run chooses, by the sum of the gradients of
// all layers of a group, with the states of one.
#include "catch.h"
#include "tests/runtime/engine/shared_runs.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::pseudo_test {

using namespace zrt;
using namespace zrt::testing;
using core::DType;
using models::Sharing;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

// Choices of what must not change a bit.
Setting varied(unsigned number, const Setting& base) {
  Setting s = base;
  s.stage = static_cast<int>(number % 4);
  s.overlap = number % 3 == 1;
  s.serialize = number % 7 == 3;
  if (number % 5 == 2) s.recompute = {Recompute::full, Recompute::none};
  if (number % 5 == 3) s.recompute = {Recompute::selective};
  const auto all = placings();
  if (number % 2 == 1) s.placement = with_exchanges_on_the_device(all[number / 2 % all.size()].place);
  return s;
}

// Bytes of the states of all ranks together.
uint64_t state_bytes(const models::Model& model, const Setting& s) {
  uint64_t bytes = 0;
  const runtime::Layout layout = make_layout(model, s);
  for (const optimizer::Unit& unit : layout.units.units) {
    for (const optimizer::UnitParam& place : unit.params) {
      bytes += static_cast<uint64_t>(place.param->elements());
    }
  }
  return bytes * (2 + 3) * sizeof(float);
}

}  // namespace

TEST_CASE("shared layers learn the same bits at every stage, placement, overlap and recomputation") {
  for (const ModelType type : {ModelType::gpt2, ModelType::qwen3, ModelType::bert}) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      Setting base = plain();
      base.compute = compute;
      const Outcome first = run(shared(type, base), base);
      for (unsigned number = 1; number < 14; ++number) {
        if (left_to_processor(number)) continue;
        const Setting s = varied(number, base);
        const Outcome other = run(shared(type, s), s);
        CAPTURE(static_cast<int>(type), number);
        CHECK(other.state == first.state);
        CHECK(other.losses == first.losses);
        CHECK(other.planned == other.measured);
      }
    }
  }
}

TEST_CASE("shared layers learn the same bits with every optimizer at every stage") {
  for (const auto& algorithm : {adafactor(false), muon(), make_optimizer(optimizer::SgdParams{})}) {
    Setting base = plain();
    base.optimizer = algorithm;
    const Outcome first = run(shared(ModelType::gpt2, base), base);
    for (int stage = 1; stage < 4; ++stage) {
      Setting s = base;
      s.stage = stage, s.overlap = stage == 2;
      CHECK(run(shared(ModelType::gpt2, s), s).state == first.state);
    }
  }
}

TEST_CASE("neighbouring stages that share layers train as one stage does") {
  Setting one = plain();
  one.ranks = 1, one.micro_batch = 4, one.reduce_every = 1, one.steps = 2;
  const Sharing all{{4}, {"*norm*"}};
  const Outcome alone = run(shared(ModelType::llama, one, all), one);
  Setting s = one;
  s.stage = 3, s.ranks = 2, s.micro_batch = 2, s.schedule.kind = ScheduleKind::one_f_one_b, s.schedule.stages = 2;
  const Outcome piped = run_stages(Pipeline(shared(ModelType::llama, s, all), s, {3, 6}).compile(s), s);
  CHECK(relative_l2(piped.weights, alone.weights) < 1e-5);
  CHECK(piped.planned == piped.measured);
}

// The tested step is one of SGD, without clipping, which subtracts rate times gradient.
TEST_CASE("a shared parameter moves by the sum of the gradients of its layers") {
  for (const ModelType type : {ModelType::gpt2, ModelType::llama}) {
    Setting s = plain();
    s.steps = 1, s.clip = 0, s.rate = 1000,  // far above what weights are rounded to
        s.optimizer = make_optimizer(optimizer::SgdParams{});
    const models::Model whole = make_small(type, {.layers = 4, .dropout = 0});
    const models::Model one = models::share(whole, by_two);
    const auto train = [&](const models::Model& model, bool steps) {
      const runtime::Layout layout = make_layout(model, s);
      const auto set = [&](const std::string& name, int64_t begin, std::span<float> out) {
        // Layers of a group begin with the same values.
        uint64_t key = 0;
        for (const char c : models::shared_name(by_two, name)) key = key * 31 + static_cast<unsigned char>(c);
        core::random_normals({key, 0, 0}, static_cast<uint64_t>(begin), static_cast<int64_t>(out.size()), out.data());
        for (float& value : out) value *= 0.1f;
      };
      runtime::SessionHooks hooks{[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                    synthetic_batch(layout, 0, rank, microbatch, to);
                                  },
                                  set};
      runtime::Session session(runtime::compile(layout, {"load", "step", "export"}), session_options(s), hooks);
      session.run("load", {});
      if (steps) session.run("step", {s.seed, 0, 0, {s.rate}});
      std::map<std::string, std::vector<float>> weights;
      session.export_weights([&](const models::Param& param, const float* values) {
        weights[param.name].assign(values, values + param.whole_elements());
      });
      return weights;
    };
    const auto before = train(whole, false), after = train(whole, true), together = train(one, true);
    std::map<std::string, std::vector<double>> sums;
    for (const auto& [name, values] : after) {
      std::vector<double>& sum = sums[models::shared_name(by_two, name)];
      sum.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        sum[i] += static_cast<double>(values[i]) - static_cast<double>(before.at(name)[i]);
      }
    }
    REQUIRE(sums.size() == together.size());
    for (const auto& [name, sum] : sums) {
      double off = 0, size = 0;
      for (size_t i = 0; i < sum.size(); ++i) {
        const double moved = static_cast<double>(together.at(name)[i]) - static_cast<double>(before.at(name)[i]);
        off += (moved - sum[i]) * (moved - sum[i]), size += sum[i] * sum[i];
      }
      INFO(name);
      CHECK(size > 0);
      CHECK(std::sqrt(off) <= 2e-4 * std::sqrt(size));
    }
  }
}

TEST_CASE("shared layers keep the states of one layer of each group, and a rank holds what the plan says") {
  for (const int stage : {0, 3}) {
    Setting s = plain();
    s.stage = stage, s.unit_elements = 1 << 20;
    const models::Model whole = make_small(ModelType::gpt2, {.layers = 4});
    const auto layer_bytes = [&] {
      uint64_t elements = 0;
      for (const models::Param& param : whole.blocks[1]->params()) {
        elements += static_cast<uint64_t>(param.elements());
      }
      return elements * 5 * sizeof(float);
    }();
    const uint64_t all = state_bytes(whole, s), together = state_bytes(models::share(whole, {{4}, {}}), s);
    CHECK(all - together == 3 * layer_bytes);
    const Outcome pseudo = run(models::share(whole, {{4}, {}}), s), real = run(whole, s);
    CHECK(pseudo.planned == pseudo.measured);
    // Padding of units apart, a rank has that much less of what it keeps through the run.
    const auto kept = [](const Outcome& outcome) {
      uint64_t bytes = 0;
      for (const auto category : {core::Category::weights, core::Category::master, core::Category::moment1,
                                  core::Category::moment2, core::Category::grads}) {
        bytes += outcome.plan.device().model_states[static_cast<size_t>(category)];
      }
      return bytes;
    };
    CHECK(kept(pseudo) < kept(real));
  }
}

}  // namespace zrt::pseudo_test
