// The commands' words about folders of Hugging Face, and about checkpoints with odd names.
#include <limits>
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

TEST_CASE("Weights are refused to a model whose rotary positions are stretched otherwise, from a run or a folder") {
  const Folder folder("stretched");
  build_data(folder);
  folder.write("run.json", folder.config());
  const std::string train = "train " + (folder / "run.json") + " --ranks 1 --steps 1 --set model.preset=llama-tiny ";
  const auto stretched = [](const std::string& factor) {
    return "--set model.rope_scaling.rope_type=llama3 --set model.rope_scaling.original_max_position_embeddings=16 "
           "--set model.rope_scaling.factor=" +
           factor + " ";
  };
  REQUIRE(run_zrt(train + stretched("4") + "--out " + (folder / "run")).code == 0);
  REQUIRE(run_zrt("checkpoint export " + (folder / "run") + " --out " + (folder / "plain")).code == 0);
  for (const std::string from : {"run", "plain"}) {
    const std::string resume = "--steps 2 --resume " + (folder / from) + " --out " + (folder / (from + "_on")) + " ";
    const std::string on = "train " + (folder / "run.json") + " --ranks 1 --set model.preset=llama-tiny " + resume;
    for (const std::string& other : {std::string(), stretched("8"), stretched("4") + "--set model.rope_theta=77 "}) {
      CAPTURE(from, other);
      const Result refused = run_zrt(on + other);
      CHECK(refused.code != 0);
      has(refused.text, "the weights are of another model than the configuration's");
      has(refused.text, other.find("theta") == std::string::npos ? "model.rope_scaling." : "model.rope_theta is ");
    }
    const Result same = run_zrt(on + stretched("4"));
    INFO(same.text);
    CHECK(same.code == 0);
  }
}

TEST_CASE("The index of an export in several files states the bytes of all its tensors") {
  const Folder folder("hugging_face_index");
  build_data(folder);
  folder.write("run.json", folder.config());
  REQUIRE(run_zrt("train " + (folder / "run.json") + " --ranks 2 --steps 1").code == 0);
  REQUIRE(run_zrt("checkpoint export " + (folder / "run") + " --shard-bytes 100000 --out " + (folder / "plain")).code ==
          0);
  const nlohmann::json index = read_json(folder / "plain/model.safetensors.index.json");
  uint64_t bytes = 0;
  size_t files = 0, tensors = 0;
  for (const auto& file : fs::directory_iterator(folder / "plain")) {
    if (file.path().extension() != ".safetensors") continue;
    ++files;
    std::ifstream in(file.path(), std::ios::binary);
    uint64_t length = 0;
    in.read(reinterpret_cast<char*>(&length), sizeof length);
    std::string header(length, '\0');
    in.read(header.data(), static_cast<std::streamsize>(length));
    const nlohmann::json entries = nlohmann::json::parse(header);
    for (const auto& [name, entry] : entries.items()) {
      if (name == "__metadata__") continue;
      ++tensors;
      bytes += entry["data_offsets"][1].get<uint64_t>() - entry["data_offsets"][0].get<uint64_t>();
      CHECK(index["weight_map"][name] == file.path().filename().string());
    }
  }
  CHECK(files > 3);
  CHECK(index["metadata"]["total_size"] == bytes);
  CHECK(index["weight_map"].size() == tensors);
}

TEST_CASE("A checkpoint with a value that is not finite in a weight or a state is broken to verify, and not exported") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::string tensor : {"ln_f.weight", "exp_avg.ln_f.weight"}) {
    const bool state = tensor != "ln_f.weight";
    CAPTURE(tensor);
    const Folder folder("not_finite_checkpoint");
    const fs::path step = begin_checkpoint(folder.path / "checkpoints", 1);
    std::vector<float> good(40, 0.5f), bad = good;
    bad[23] = -infinity;
    // Two ranks' parts of it: element 23 of the second is element 63 of the tensor, in the second file.
    Manifest manifest;
    manifest.step = 1;
    manifest.model = {{"type", "gpt2"}, {"layers", 1}, {"hidden", 80}, {"heads", 1},
                      {"sequence", 8},  {"vocab", 8},  {"tied", true}};
    manifest.made_by = Json::object();
    const auto write = [&](const std::string& name, int rank, const std::vector<float>& values, bool states) {
      const Run run{name, {80}, 40 * rank, 40, core::Form::f32, reinterpret_cast<const std::byte*>(values.data())};
      for (const auto& [file, record] : write_shard(states ? step / "optimizer" : step, rank, {&run, 1})) {
        manifest.files[(states ? "optimizer/" : "") + file] = record;
      }
    };
    write("ln_f.weight", 0, good, false);
    write("ln_f.weight", 1, state ? good : bad, false);
    if (state) {
      manifest.optimizer = "AdamW", manifest.control = Json::object();
      write(tensor, 0, good, true);
      write(tensor, 1, bad, true);
    }
    commit_checkpoint(folder.path / "checkpoints", step, manifest);
    const std::string file = "step_1/" + std::string(state ? "optimizer/" : "") +
                             "shard-00002-model-00001-of-00001.safetensors: tensor '" + tensor + "' of type F32 ";
    const Result verified = run_zrt("checkpoint verify " + folder.path.string());
    CHECK(verified.code == 1);
    has(verified.text, "step_1: broken: ");
    has(verified.text, file + "is -infinity at element 63 of [80]: the run that made it has diverged");
    const Result exported = run_zrt("checkpoint export " + folder.path.string() + " --out " + (folder / "out").c_str());
    INFO(exported.text);
    CHECK(exported.code == (state ? 0 : 1));
    CHECK(fs::exists(folder / "out") == state);
    if (!state) has(exported.text, file + "is -infinity at element 63 of [80]");
  }
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
