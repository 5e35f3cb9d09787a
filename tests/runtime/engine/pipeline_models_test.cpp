// GPT-2, Llama and Qwen3 in pipelines: the bits of a run without one, over everything that can be combined with it.
#include <map>
#include <tuple>

#include "catch.h"
#include "runtime/config/config.h"
#include "tests/runtime/pipeline.h"

namespace zrt::pipeline_models_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

models::Model model_of(size_t number) {
  if (number == 0) {
    return models::make_gpt2(
        {.layers = 6, .hidden = 32, .heads = 2, .sequence = 12, .vocab = 61, .dropout = 0.1f, .tied = false});
  }
  if (number == 1) {
    models::LlamaConfig config;
    config.layers = 6, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.ffn = 48;
    config.sequence = 12, config.vocab = 61;
    return models::make_llama(config);
  }
  return runtime::parse_config(
             R"({"train_batch_size": 1, "model": {"type": "qwen3", "layers": 6, "hidden": 32, "heads": 2,
                 "kv_heads": 1, "head_dim": 16, "ffn": 48, "sequence": 12, "vocab": 61, "tied": false}})",
             "qwen3", {}, 1)
      .model.make();
}

// A choice of one of `n`, for the factor at hand of a combination.
class Choices {
 public:
  explicit Choices(uint64_t number) : number_(number) {}
  size_t of(size_t n) {
    const size_t choice = number_ % n;
    number_ /= n;
    return choice;
  }

 private:
  uint64_t number_;
};

}  // namespace

// All combinations with ZRT_FULL_TESTS; else one in 211, a prime, so that each value of each factor comes.
TEST_CASE("real models have the same bits in a pipeline and without one", "[long]") {
  constexpr std::array types{core::DType::f32, core::DType::bf16, core::DType::f16};
  constexpr std::array<uint32_t, 4> accumulations{1, 2, 3, 8};
  const std::array<models::Model, 3> models{model_of(0), model_of(1), model_of(2)};
  std::map<std::tuple<size_t, size_t, int, uint32_t, uint32_t>, Outcome> references;
  constexpr uint64_t all = 3 * 3 * 4 * 2 * 2 * 3 * 4 * 3 * 4 * 2;
  for (uint64_t number = 0; number < all; number += full_tests() ? 1 : 211) {
    Choices choose(number);
    const size_t model = choose.of(3), type = choose.of(3);
    Setting s;
    s.accumulation = accumulations[choose.of(4)];
    s.reduce_every = choose.of(2) == 0 ? 1 : s.accumulation;
    s.ranks = 1 + static_cast<int>(choose.of(2));
    s.compute = types[type], s.micro_batch = 1, s.steps = 2;
    s.loss_scale.initial = s.compute == core::DType::f16 ? 128 : 1;
    const auto [reference, inserted] =
        references.try_emplace({model, type, s.ranks, s.accumulation, s.reduce_every}, Outcome{});
    if (inserted) reference->second = run(models[model], s);
    const int stages = 2 + static_cast<int>(choose.of(3));
    s.stage = static_cast<int>(choose.of(4));
    s.recompute = std::vector<std::vector<Recompute>>{
        {}, {Recompute::never}, {Recompute::selective}, {Recompute::full}}[choose.of(4)];
    const ScheduleKind kind = std::array{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                         ScheduleKind::zb_h1}[choose.of(4)];
    const bool interleaved = kind == ScheduleKind::interleaved;
    if (interleaved && static_cast<int>(s.accumulation) < stages) continue;  // which is refused
    s.overlap = choose.of(2) == 0;
    const Outcome outcome = run_pipeline(models[model], s, kind, stages, interleaved ? 2 : 1);
    CAPTURE(model, core::dtype_name(s.compute), s.accumulation, s.reduce_every, s.ranks, stages, s.stage,
            s.recompute.empty(), runtime::schedule_name(kind), s.overlap, number);
    CHECK(outcome.state == reference->second.state);
    CHECK(outcome.losses == reference->second.losses);
    CHECK(outcome.norms == reference->second.norms);
    CHECK(outcome.measured == outcome.planned);
  }
}

TEST_CASE("fp16's skipped steps are skipped on all stages") {
  const models::Model model = model_of(0);
  Setting s;
  s.compute = core::DType::f16, s.accumulation = s.reduce_every = 4, s.micro_batch = 1, s.steps = 20;
  s.loss_scale.dynamic = true;
  s.loss_scale.initial = 0x1p30;
  s.loss_scale.hysteresis = 1;
  const Outcome reference = run(model, s);
  REQUIRE(reference.loss_scales.front() > reference.loss_scales.back());
  for (int stage = 0; stage < 4; ++stage) {
    s.stage = stage;
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
      const Outcome outcome = run_pipeline(model, s, kind, 3);
      CHECK(outcome.loss_scales == reference.loss_scales);
      CHECK(outcome.state == reference.state);
    }
  }
}

}  // namespace zrt::pipeline_models_test
