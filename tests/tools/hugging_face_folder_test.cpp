// The commands' words about folders of Hugging Face, and about checkpoints with odd names.
#include <vector>

#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"
#include "tests/program.h"

namespace zrt::hugging_face_folder_test {

using namespace zrt::testing;
using namespace zrt::runtime::checkpoint;

namespace {

bool has(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "Training from a folder and importing it warn of unknown keys and refuse tensors that the model does not have") {
  const Folder folder("hugging_face_folder");
  build_data(folder);
  folder.write("run.json", folder.config());
  const std::string train = "train " + (folder / "run.json") + " --ranks 2 --steps 1 ";
  const std::string plain = folder / "plain", from = "--resume " + plain + " --out ";
  REQUIRE(run_zrt(train).code == 0);
  REQUIRE(run_zrt("checkpoint export " + (folder / "run") + " --out " + plain).code == 0);
  const auto change = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = read_json(plain + "/config.json");
    config[key] = value;
    folder.write("plain/config.json", config.dump());
  };
  const std::string import = "checkpoint import " + plain + " --out ";
  CHECK(run_zrt(import + (folder / "silent")).text.find("warning") == std::string::npos);

  change("attention_sinks", 4);
  const std::string unknown = "config.json: zrt does not know 'attention_sinks' (4)";
  const Result trained = run_zrt(train + from + (folder / "trained")),
               imported = run_zrt(import + (folder / "imported"));
  CHECK((trained.code == 0 && imported.code == 0));
  CHECK((has(trained.text, unknown) && has(imported.text, "warning: " + plain + "/" + unknown)));

  change("n_layer", 1);
  const std::string left_over = "the model of 1 layers has 16: it has no 'transformer.h.1.";
  for (const char* stages : {"1", "2"}) {
    const Result refused =
        run_zrt(train + "--set model.layers=1 --set parallel.pipeline=" + stages + " " + from + (folder / "fewer"));
    CHECK(refused.code == 1);
    has(refused.text, left_over);
  }
  const Result refused = run_zrt(import + (folder / "fewer_imported"));
  CHECK(refused.code == 1);
  has(refused.text, left_over);
  CHECK(!fs::exists(folder / "fewer_imported"));

  change("final_logit_softcapping", 30.0);
  has(run_zrt(import + (folder / "capped")).text, "'final_logit_softcapping' is 30.0");
}

TEST_CASE("Names of a checkpoint's tensors reach no terminal as they are") {
  const Folder folder("hostile_names");
  const std::string name =
      "a\x1b]0;owned\x07\xc2\x9b"
      "2J\x7f";
  const fs::path step = begin_checkpoint(folder.path / "checkpoints", 1);
  const std::vector<float> values(4);
  Manifest manifest;
  manifest.step = 1;
  manifest.model = manifest.made_by = {{name, name}};
  const Run run{name, {4}, 0, 4, core::Form::f32, reinterpret_cast<const std::byte*>(values.data())};
  manifest.files = write_shard(step, 0, {&run, 1});
  commit_checkpoint(folder.path / "checkpoints", step, manifest);
  for (const char* arguments : {"checkpoint inspect ", "checkpoint inspect --json ", "checkpoint verify ",
                                "checkpoint list ", "checkpoint list --json "}) {
    const Result shown = run_zrt(arguments + folder.path.string());
    INFO(arguments << "\n" << shown.text);
    CHECK(shown.code == 0);
    for (const char* control : {"\x1b", "\x07", "\xc2\x9b", "\x7f"})
      CHECK(shown.text.find(control) == std::string::npos);
  }
  has(run_zrt("checkpoint inspect " + folder.path.string()).text, "a\\x1b]0;owned\\x07\\xc2\\x9b2J\\x7f");
  const auto json = nlohmann::json::parse(run_zrt("checkpoint inspect --json " + folder.path.string()).text);
  CHECK(json["tensors"].contains(name));
}

}  // namespace zrt::hugging_face_folder_test
