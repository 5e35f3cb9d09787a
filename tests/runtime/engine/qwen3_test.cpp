// Qwen3, as its spec makes it: the same bits whatever the stage, unit sizes, overlap, placement, recomputation and
// update timing, also behind a checkpoint.
#include "runtime/config/config.h"
#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/engine/model_sweep.h"

namespace zrt::qwen3_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

models::Model tiny(bool tied) {
  const std::string text = R"({"train_batch_size": 1, "model": {"type": "qwen3", "layers": 2, "hidden": 48, "heads": 4,
    "kv_heads": 2, "head_dim": 16, "ffn": 80, "sequence": 24, "vocab": 61, "tied": )";
  return runtime::parse_config(text + (tied ? "true}}" : "false}}"), "qwen3", {}, 1).model.make();
}

models::Model tiny_of(const EqualRuns& group) {
  return tiny(group.tied);
}

std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16, f16 = core::DType::f16;
  if (full_tests()) return all_groups({0.0f});
  return {{bf16, 0, 4, 2, 2, true}, {f32, 0, 1, 1, 3, false}, {f16, 0, 2, 2, 2, true}};
}

}  // namespace

TEST_CASE("Qwen3's weights after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  check_invariance(groups(), tiny_of);
}

TEST_CASE("A serialized run of Qwen3 holds exactly the live bytes the plan says, category by category") {
  check_live_bytes(0, tiny_of);
}

TEST_CASE("Wherever Qwen3's states are, whatever it computes again and whenever it updates, its bits are the same") {
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    check_placements(tiny(type == core::DType::bf16), type);
  }
}

TEST_CASE("Qwen3 goes on from a checkpoint with the bits of a run that did not stop, and loads on other ranks") {
  check_resume(tiny(true));
}

}  // namespace zrt::qwen3_test
