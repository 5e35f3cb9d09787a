// Qwen3, as its spec makes it: the same bits whatever the stage, unit sizes, overlap, placement, recomputation and
// update timing, also behind a checkpoint.
#include "runtime/config/config.h"
#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::qwen3_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;

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
  const std::vector<std::vector<Recompute>> kept{{}, {Recompute::selective}, {Recompute::full}};
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    const models::Model model = tiny(type == core::DType::bf16);
    Setting s;
    s.ranks = 2, s.compute = type, s.accumulation = 2, s.reduce_every = 2, s.steps = 3, s.clip = 0;
    const Outcome reference = run(model, s);
    unsigned turn = 0;
    for (const NamedPlacing& placing : placings()) {
      ++turn;
      if (left_to_processor(turn)) continue;
      s.stage = static_cast<int>(turn % 4);
      s.placement = placing.place;
      s.recompute = kept[turn % 3];
      s.overlap = turn % 2 == 0, s.early_updates = turn % 5 == 0;
      s.unit_elements = turn % 2 ? 3000 : 1 << 20;
      INFO(core::dtype_name(type) << ", " << placing.name << ", stage " << s.stage << ", turn " << turn);
      const Outcome outcome = run(model, s);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.planned == outcome.measured);
      CHECK(outcome.planned_behind == outcome.measured_behind);
    }
  }
}

TEST_CASE("Qwen3 goes on from a checkpoint with the bits of a run that did not stop, and loads on other ranks") {
  const models::Model model = tiny(true);
  Setting s;
  s.ranks = 2, s.stage = 3, s.compute = core::DType::bf16;
  const TemporaryFolder folder;
  SavingRun whole(model, s, folder.path, true);
  whole.steps(2);
  whole.save();
  REQUIRE(whole.saved().error.empty());
  const std::string at_save = whole.hash();
  whole.steps(3);
  const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
  SavingRun again(model, s, folder.path / "again", false, &reader);
  again.steps(3);
  CHECK(again.hash() == whole.hash());
  s.ranks = 3, s.stage = 1;
  CHECK(SavingRun(model, s, folder.path / "other", false, &reader).hash() == at_save);
}

}  // namespace zrt::qwen3_test
