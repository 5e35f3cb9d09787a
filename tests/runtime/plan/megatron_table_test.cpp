// Table 1 of Megatron-LM's PTD-P paper (arXiv 2104.04473): the meshes of its ten rows, planned.
#include <fmt/format.h>

#include "catch.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "tests/csv.h"
#include "tests/runtime/harness.h"

namespace zrt::megatron_table_test {

using namespace zrt;
using namespace zrt::runtime;

namespace {

struct Row {
  std::map<std::string, std::string> cells;
  int64_t at(const std::string& name) const { return std::stoll(cells.at(name)); }
};

Config config_of(const Row& row) {
  const int64_t chunks = row.at("pp") * row.at("model_chunks_v"), layers = row.at("layers");
  std::string partition = "[";
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t blocks = layers / chunks + (chunk == 0 ? 1 : 0) + (chunk + 1 == chunks ? 1 : 0);
    partition += fmt::format("{}{}", chunk == 0 ? "" : ",", blocks);
  }
  partition += "]";
  const std::string text = fmt::format(
      R"({{"train_batch_size": {}, "train_micro_batch_size_per_gpu": {}, "fp16": {{"enabled": true}},
          "optimizer": {{"type": "Adam"}}, "memory": {{"recompute": "full", "placement": "device"}},
          "model": {{"type": "gpt2", "layers": {}, "hidden": {}, "heads": {}, "sequence": {}, "vocab": {}, "tied": true}},
          "parallel": {{"tensor": {}, "pipeline": {}, "virtual_pipeline": {}, "partition": {}}}}})",
      row.at("global_batch"), row.at("microbatch"), layers, row.at("hidden"), row.at("heads"), row.at("seq"),
      row.at("vocab"), row.at("tp"), row.at("pp"), row.at("model_chunks_v"), chunks == 1 ? "\"time\"" : partition);
  return parse_config(text, "row.json", {}, static_cast<int>(row.at("gpus")));
}

void check(const std::map<std::string, std::string>& cells) {
  const Row row{cells};
  const Config config = config_of(row);
  const models::Model model = config.model.make();
  CAPTURE(cells.at("params_billion"));
  // The formula leaves out the last norm.
  CHECK(model.parameters() == row.at("params_formula") + 2 * row.at("hidden"));
  CHECK(config.mesh.data() == row.at("dp"));
  CHECK(config.batch.accumulation == row.at("microbatches_per_pipeline_m"));
  const Plan plan = make_plan(config, model, training_phases(config, "init"), {});
  for (const StagePlan& stage : plan.stages) {
    CHECK(stage.compiled.plan.device().peak_bytes < 80'000'000'000);
  }
}

}  // namespace

TEST_CASE("a model that is not made for ranks that share its blocks is refused with a degree above 1") {
  const Config config = parse_config(
      R"({"train_batch_size": 1, "model": {"layers": 1, "hidden": 8, "heads": 2, "sequence": 4, "vocab": 5}})", "c",
      {"parallel.tensor=2"}, 2);
  models::Gpt2Config whole{.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocab = 5};
  CHECK_THROWS_WITH(make_layouts(config, models::make_gpt2(whole)), Catch::Contains("none of its tensors is cut"));
  whole.degrees.tensor = 2;
  models::Model model = models::make_gpt2(whole);
  CHECK_NOTHROW(make_layouts(config, model));
  model.degrees.sequence_parallel = true;
  CHECK_THROWS_WITH(make_layouts(config, model), Catch::Contains("Model::degrees"));
}

TEST_CASE("the smallest model of PTD-P's table fits 80 GB a rank, with the parameters of its formula") {
  check(test::read_csv("ptdp_table1.csv").front());
}

TEST_CASE("the ten rows of PTD-P's table fit 80 GB a rank, with the parameters of its formula", "[long]") {
  const auto rows = test::read_csv("ptdp_table1.csv");
  CHECK(rows.size() == 10);
  for (const auto& cells : rows) check(cells);
}

}  // namespace zrt::megatron_table_test
