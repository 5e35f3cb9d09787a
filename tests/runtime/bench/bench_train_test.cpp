// `zrt bench train` says of a step what the step's program does.
#include "catch.h"
#include "runtime/bench/train.h"
#include "runtime/plan/setup.h"
#include "temporary_folder.h"

namespace zrt::bench_train_test {

using namespace zrt;

TEST_CASE("A step is said to move what its program does, however many steps were taken before") {
  const testing::TemporaryFolder folder;
  const runtime::Config config =
      runtime::parse_config(R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
                                "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 1},
                                "model": {"preset": "gpt2-tiny", "layers": 1, "sequence": 8}})",
                            "test", {"memory.placement=nvme", "memory.nvme_path=" + folder.path.string()}, 1);
  const auto stages = runtime::compile_within_budget(config, config.model.make(), {"load", "step"});
  const runtime::ProgramSet& set = stages.front().set;
  const runtime::Moved step = runtime::forecast_moved(set, set.program("step"));
  REQUIRE((step.to_device > 0 && step.to_host > 0 && step.read > 0 && step.written > 0));
  const runtime::TrainBench bench = runtime::bench_train(config, {1}, 2, "", [](const std::string&) {});
  const runtime::Moved told = bench.stages.at(0).moved;
  CHECK(told.to_device == step.to_device);
  CHECK(told.to_host == step.to_host);
  CHECK(told.read == step.read);
  CHECK(told.written == step.written);
}

}  // namespace zrt::bench_train_test
