// Gemma 2, Gemma 3 and Mistral, as their specs make them: the same bits whatever the stage, unit sizes, overlap,
// placement, recomputation, update timing and stages of a pipeline.
#include "runtime/config/config.h"
#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/pipeline.h"

namespace zrt::gemma_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

const std::vector<std::string> types{"gemma2", "gemma3_text", "mistral"};

models::Model tiny(const std::string& type, bool tied, int layers = 2) {
  std::string text = R"({"train_batch_size": 1, "model": {"hidden": 48, "heads": 4, "kv_heads": 2, "head_dim": 16,
    "ffn": 80, "sequence": 24, "vocab": 61, "sliding_window": 7, "type": ")";
  text += type + R"(", "layers": )" + std::to_string(layers) + R"(, "tied": )" + (tied ? "true" : "false");
  if (type != "mistral") text += R"(, "sliding_window_pattern": 2, "query_pre_attn_scalar": 24)";
  return runtime::parse_config(text + "}}", type, {}, 1).model.make();
}

models::Model tiny_of(const EqualRuns& group) {
  return tiny(types[group.accumulation % 3], group.tied);
}

std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16, f16 = core::DType::f16;
  if (full_tests()) return all_groups({0.0f});
  return {{bf16, 0, 3, 1, 2, true}, {f32, 0, 1, 1, 3, false}, {f16, 0, 2, 2, 2, true}};
}

}  // namespace

TEST_CASE(
    "The weights of Gemma and Mistral after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  check_invariance(groups(), tiny_of);
}

TEST_CASE("Wherever Gemma's states are, whatever it computes again and whenever it updates, its bits are the same") {
  for (const std::string& type : types) {
    const bool half = type != "gemma3_text";
    check_placements(tiny(type, half), half ? core::DType::bf16 : core::DType::f32);
  }
}

TEST_CASE("Gemma and Mistral have the same bits in pipelines, with what is computed again, and without") {
  const std::vector<std::vector<Recompute>> kept{{}, {Recompute::never}, {Recompute::selective}, {Recompute::full}};
  for (const std::string& type : types) {
    const models::Model model = tiny(type, false, 4);
    Setting s;
    s.accumulation = s.reduce_every = 4, s.micro_batch = 1, s.steps = 2;
    s.compute = type == "mistral" ? core::DType::f32 : core::DType::bf16;
    const Outcome reference = run(model, s);
    unsigned turn = 0;
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
      for (const int stages : {2, 3}) {
        s.recompute = kept[turn % 4], s.stage = static_cast<int>(turn % 4);
        ++turn;
        INFO(type << ", schedule " << runtime::schedule_name(kind) << ", stages " << stages << ", turn " << turn);
        const Outcome outcome = run_pipeline(model, s, kind, stages, kind == ScheduleKind::interleaved ? 2 : 1);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("Gemma goes on from a checkpoint with the bits of a run that did not stop, and loads on other ranks") {
  check_resume(tiny("gemma3_text", true));
}

}  // namespace zrt::gemma_test
