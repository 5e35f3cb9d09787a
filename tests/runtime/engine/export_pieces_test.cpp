// Exports of tensors that ranks have slices of: in pieces, with less memory than a step.
#include "catch.h"
#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/plan/plan.h"
#include "runtime/program/export_piece.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::export_pieces_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

// Ranks have more than one piece of an embedding, or with `wide` layers of a unit of several parameters.
models::Model model_of(int tensor, bool wide = false) {
  models::Gpt2Config config;
  config.layers = 1, config.hidden = wide ? 1024 : 256, config.heads = 4, config.sequence = 8;
  config.vocab = wide ? 131 : 41001;
  config.tied = false, config.degrees = {tensor};
  return models::make_gpt2(config);
}

std::map<std::string, std::vector<float>> exported(const Setting& s, bool wide, size_t* pieces = nullptr) {
  const runtime::Layout layout = make_layout(model_of(s.tensor, wide), s);
  runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
  if (pieces) {
    for (const optimizer::Unit& unit : layout.units.units) {
      if (unit.sliced()) *pieces = std::max<size_t>(*pieces, runtime::export_pieces(layout, unit));
    }
  }
  runtime::Session session(std::move(compiled), session_options(s), {{}, {}});
  session.run("init", {});
  std::map<std::string, std::vector<float>> weights;
  session.export_weights([&](const models::Param& param, const float* values) {
    weights[param.name].assign(values, values + param.whole_elements());
  });
  return weights;
}

}  // namespace

TEST_CASE("tensors that ranks tell each other in pieces are those of one rank") {
  for (const auto& [wide, stage, ranks] : {std::tuple{false, 0, 1}, {false, 3, 2}, {true, 0, 1}, {true, 1, 2}}) {
    const auto whole = exported({}, wide);
    for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
      Setting s;
      s.tensor = wide ? 4 : 2, s.ranks = ranks, s.stage = stage, s.compute = type, s.unit_elements = 8 << 20;
      size_t pieces = 0;
      CAPTURE(wide, stage, ranks);
      const auto weights = exported(s, wide, &pieces);
      CHECK(pieces > 1);
      REQUIRE(weights.size() == whole.size());
      for (const auto& [name, values] : whole) {
        CAPTURE(name);
        CHECK(weights.at(name) == values);
      }
    }
  }
}

TEST_CASE("an export that takes one piece for another is refused") {
  Setting s;
  s.tensor = 2;
  const runtime::Layout layout = make_layout(model_of(2), s);
  runtime::ProgramSet set = runtime::compile(layout, {"init", "step", "export"}).set;
  size_t tried = 0;
  for (runtime::Program& program : set.programs) {
    for (runtime::Op& op : program.ops) {
      if (op.kind != runtime::OpKind::export_state || op.round == 0) continue;
      const uint32_t round = std::exchange(op.round, op.round - 1);
      CHECK_THROWS_WITH(runtime::verify(set, layout), Catch::Matchers::Contains("comes next"));
      op.round = round, ++tried;
    }
  }
  CHECK(tried > 1);
}

TEST_CASE("an export that leaves the last piece of a unit out is refused") {
  Setting s;
  s.tensor = 2;
  const runtime::Layout layout = make_layout(model_of(2), s);
  runtime::ProgramSet set = runtime::compile(layout, {"init", "step", "export"}).set;
  runtime::Program& program = program_of(set, "export");
  runtime::OpId last = 0;
  for (runtime::OpId id = 0; id < program.ops.size(); ++id) {
    if (program.ops[id].kind == runtime::OpKind::export_state && program.ops[id].round > program.ops[last].round)
      last = id;
  }
  REQUIRE(program.ops[last].round > 0);
  drop_op(program, last), drop_op(program, last - 1);
  CHECK_THROWS_WITH(runtime::verify(set, layout), Catch::Matchers::Contains("leaves out piece"));
}

TEST_CASE("no export of a trillion parameters needs more of the device than a step") {
  for (const char* stage : {"1", "3"}) {
    for (const char* recompute : {"full"}) {  // with which a step needs least
      CAPTURE(stage, recompute);
      const runtime::Config config = runtime::parse_config(
          R"({"train_batch_size": 3072, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
              "parallel": {"pipeline": 64, "tensor": 8},
              "model": {"type": "gpt2", "layers": 128, "hidden": 25600, "heads": 160, "sequence": 2048, "vocab": 51200,
                        "tied": false}})",
          "trillion.json",
          {std::string("zero_optimization.stage=") + stage, std::string("memory.recompute=") + recompute}, 3072);
      const runtime::Plan plan = runtime::make_plan(config, config.model.make(), {"init", "step", "export"}, {});
      for (const runtime::StagePlan& each : plan.stages) {
        std::map<std::string, uint64_t> peaks;
        for (const runtime::PhasePeak& phase : each.phases) peaks[phase.phase] = phase.live_bytes;
        CHECK(peaks.at("export") <= peaks.at("step"));
      }
    }
  }
}

}  // namespace zrt::export_pieces_test
