// Checkpoints of one mesh of tensor-parallel, data-parallel and pipeline ranks load on any other.
#include <fstream>
#include <sstream>

#include "catch.h"
#include "runtime/train/checkpoint/exchange.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/train/saving_run.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::tensor_resume_test {

using namespace zrt;
using namespace zrt::testing;
using Run = SavingRun;

namespace {

struct Mesh {
  int tensor, stages, data, zero;
  bool rows = false;  // are shared, too
};
// The ranks of each mesh are threads of one process.
constexpr Mesh meshes[] = {{1, 1, 1, 0}, {2, 1, 1, 1},       {3, 1, 1, 3, true}, {4, 1, 1, 2},
                           {1, 1, 3, 3}, {1, 2, 1, 1},       {2, 1, 2, 3},       {2, 2, 1, 0, true},
                           {3, 2, 1, 1}, {2, 1, 3, 2, true}, {4, 1, 2, 1},       {2, 2, 2, 3, true}};

models::Model model_for(int which, const Mesh& mesh) {
  constexpr std::array types{ModelType::gpt2, ModelType::llama, ModelType::qwen3};
  return make_small(types.at(static_cast<size_t>(which)),
                    {.sequence = 8, .dropout = 0, .tied = false, .degrees = {mesh.tensor, mesh.rows}});
}

Setting setting_for(const Mesh& mesh) {
  Setting s;
  s.tensor = mesh.tensor, s.rows = mesh.rows, s.ranks = mesh.data, s.stage = mesh.zero;
  s.schedule.stages = mesh.stages;
  s.micro_batch = 6 / mesh.data, s.accumulation = s.reduce_every = 2;
  s.rate = 1e-3;
  return s;
}

}  // namespace

// All pairs with ZRT_FULL_TESTS.
TEST_CASE("a checkpoint of any mesh loads on any other to the same weights, and further steps agree", "[long]") {
  const int further = full_tests() ? 20 : 3;
  size_t number = 0;
  for (const int which : {0, 1, 2}) {
    for (const Mesh& from : meshes) {
      const TemporaryFolder folder;
      std::vector<float> went_on;
      std::string hash;
      {
        Run first(model_for(which, from), setting_for(from), folder.path, from.zero % 2 == 1);
        first.steps(3);
        first.save();
        REQUIRE(first.saved().error.empty());
        hash = first.hash();
        first.steps(further);
        went_on = first.weights();
      }
      const runtime::checkpoint::Reader reader(folder.path / "step_3", true);
      for (const Mesh& to : meshes) {
        if (number++ % 5 != 0 && !full_tests()) continue;
        CAPTURE(which, from.tensor, from.stages, from.data, from.zero, from.rows, to.tensor, to.stages, to.data,
                to.zero, to.rows);
        Run second(model_for(which, to), setting_for(to), folder.path / "again", false, &reader);
        CHECK(second.hash() == hash);
        second.steps(further);
        CHECK(relative_l2(second.weights(), went_on) < 1e-5);
      }
    }
  }
}

// One model in three of the meshes, all with ZRT_FULL_TESTS.
TEST_CASE("an export in Hugging Face's form is the same from every mesh, to the byte") {
  const char* sections[] = {R"({"type": "gpt2", "layers": 2, "hidden": 48, "heads": 12, "sequence": 8, "vocab": 61,
                               "tied": false})",
                            R"({"type": "llama", "layers": 2, "hidden": 48, "heads": 12, "ffn": 53, "sequence": 8,
                               "vocab": 61})",
                            R"({"type": "qwen3", "layers": 2, "hidden": 48, "heads": 12, "kv_heads": 12, "head_dim": 4,
                               "ffn": 53, "sequence": 8, "vocab": 61, "tied": false})"};
  for (int which = 0; which < 3; ++which) {
    const runtime::Config config = runtime::parse_config(
        std::string(R"({"train_batch_size": 1, "model": )") + sections[which] + "}", "model.json", {}, 1);
    const TemporaryFolder folder;
    const auto exported = [&](Run& run, const std::string& name) {
      run.model_section = runtime::model_json(config);
      run.save();
      REQUIRE(run.saved().error.empty());
      const runtime::checkpoint::Reader reader(folder.path / name / "step_1", true);
      std::string bytes;
      for (const std::string& file : export_hugging_face(reader, folder.path / (name + ".out"), {})) {
        std::ifstream in(folder.path / (name + ".out") / file, std::ios::binary);
        bytes.append(std::istreambuf_iterator<char>(in), {});
      }
      return bytes;
    };
    std::string expected;
    {
      Run first(model_for(which, meshes[0]), setting_for(meshes[0]), folder.path / "first", false);
      first.steps(1);
      expected = exported(first, "first");
    }
    CHECK(expected.size() > 100'000);
    const runtime::checkpoint::Reader reader(folder.path / "first" / "step_1", true);
    for (size_t i = 1; i < std::size(meshes); ++i) {
      if (i % 3 != static_cast<size_t>(which) && !full_tests()) continue;
      const Mesh& mesh = meshes[i];
      CAPTURE(which, mesh.tensor, mesh.stages, mesh.data, mesh.zero, mesh.rows);
      const std::string name = std::to_string(i);
      Run again(model_for(which, mesh), setting_for(mesh), folder.path / name, false, &reader);
      CHECK(exported(again, name) == expected);
    }
  }
}

TEST_CASE("going on on the same tensor mesh gives the bits of a run that did not stop") {
  for (const int which : {0, 2}) {
    for (const Mesh& mesh : {Mesh{2, 1, 2, 3}, {3, 1, 1, 1}, {2, 2, 1, 0}, {2, 1, 2, 3, true}, {2, 2, 1, 1, true}}) {
      const TemporaryFolder folder;
      const models::Model model = model_for(which, mesh);
      Run whole(model, setting_for(mesh), folder.path, false);
      whole.steps(3);
      whole.save();
      REQUIRE(whole.saved().error.empty());
      whole.steps(3);
      const runtime::checkpoint::Reader reader(folder.path / "step_3", true);
      Run again(model, setting_for(mesh), folder.path / "again", false, &reader);
      again.steps(3);
      CAPTURE(which, mesh.tensor, mesh.stages, mesh.data, mesh.zero, mesh.rows);
      CHECK(again.hash() == whole.hash());
      CHECK(again.as_planned());
    }
  }
}

namespace {

// Every tensor of a checkpoint, by name.
std::map<std::string, std::vector<float>> contents(const runtime::checkpoint::Reader& reader) {
  std::map<std::string, std::vector<float>> all;
  const auto add = [&](const runtime::checkpoint::TensorSet& tensors) {
    for (const std::string& name : tensors.names()) {
      int64_t elements = 1;
      for (const int64_t extent : tensors.shape(name)) elements *= extent;
      all[name].resize(static_cast<size_t>(elements));
      tensors.read(name, 0, all[name]);
    }
  };
  add(reader.weights()), add(*reader.states());
  return all;
}

}  // namespace

TEST_CASE("under Adafactor and Muon a checkpoint of any mesh is on any other the same one, to the bit", "[long]") {
  size_t number = 0;
  for (const optimizer::OptimizerPtr& optimizer : {adafactor(true), muon()}) {
    for (const int which : {0, 2}) {
      for (const Mesh& from : meshes) {
        if (number++ % 3 != 0 && !full_tests()) continue;
        const auto setting = [&](const Mesh& mesh) {
          Setting s = setting_for(mesh);
          s.optimizer = optimizer;
          return s;
        };
        const TemporaryFolder folder;
        Run first(model_for(which, from), setting(from), folder.path, from.zero % 2 == 1);
        first.steps(3);
        first.save();
        REQUIRE(first.saved().error.empty());
        const runtime::checkpoint::Reader reader(folder.path / "step_3", true);
        const auto saved = contents(reader);
        first.steps(1);
        for (const Mesh& to : meshes) {
          if (number++ % 5 != 0 && !full_tests()) continue;
          CAPTURE(which, from.tensor, from.stages, from.data, from.zero, to.tensor, to.stages, to.data, to.zero);
          const TemporaryFolder again;
          Run second(model_for(which, to), setting(to), again.path, to.zero % 2 == 0, &reader);
          second.save();
          REQUIRE(second.saved().error.empty());
          CHECK(contents(runtime::checkpoint::Reader(again.path / "step_3", true)) == saved);
          second.steps(1);
          CHECK(relative_l2(second.weights(), first.weights()) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("under Adafactor and Muon going on on the same tensor mesh gives the bits of a run that did not stop") {
  for (const optimizer::OptimizerPtr& optimizer : {adafactor(true), muon()}) {
    for (const Mesh& mesh : {Mesh{2, 1, 2, 3}, {3, 1, 1, 1}, {2, 2, 1, 0}, {2, 1, 2, 3, true}}) {
      const TemporaryFolder folder;
      const models::Model model = model_for(2, mesh);
      Setting s = setting_for(mesh);
      s.optimizer = optimizer;
      Run whole(model, s, folder.path, false);
      whole.steps(3);
      whole.save();
      REQUIRE(whole.saved().error.empty());
      whole.steps(3);
      const runtime::checkpoint::Reader reader(folder.path / "step_3", true);
      Run again(model, s, folder.path / "again", false, &reader);
      again.steps(3);
      CAPTURE(optimizer->members(), mesh.tensor, mesh.stages, mesh.data, mesh.zero);
      CHECK(again.hash() == whole.hash());
      CHECK(again.as_planned());
    }
  }
}

}  // namespace zrt::tensor_resume_test
