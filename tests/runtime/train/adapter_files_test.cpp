// Folders of PEFT: what it wrote gives its logits and merges to its weights, and what is written is what was read.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "core/error.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/exchange.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::adapter_files_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using namespace zrt::hugging_face_logits;
namespace fs = std::filesystem;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "adapters";
constexpr const char* names[] = {"gpt2", "llama", "qwen3"};

Json json_of(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

std::vector<float> all_of(const TensorSet& set, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(set.elements(name)));
  set.read(name, 0, values);
  return values;
}

// A copy of a golden folder, whose adapter_config.json a test changes.
struct Copy {
  testing::TemporaryFolder folder;
  fs::path path = folder.path / "qwen3";
  Json config = json_of(goldens / "qwen3" / adapter_config_name);
  Copy() {
    fs::copy(goldens / "qwen3", path);
    config["base_model_name_or_path"] = (goldens / ".." / "hugging_face" / "qwen3").string();
  }
  std::string refusal() {
    std::ofstream(path / adapter_config_name) << config.dump();
    try {
      open_adapters(path);
    } catch (const core::DataError& error) {
      return error.what();
    }
    return "";
  }
};

// The section of a configuration that the reader's model asks for, as a run's checkpoint would have it.
Reader imported(const Reader& from, const fs::path& store) {
  return Reader(import_hugging_face(from, runtime::model_json(config_of(from)), store), true);
}

}  // namespace

TEST_CASE("adapters of PEFT give its logits within 1e-5, read in place and imported") {
  const Json logits = json_of(goldens / "logits.json");
  const auto tokens = logits["tokens"].get<std::vector<int32_t>>();
  for (const char* name : names) {
    CAPTURE(name);
    const auto expected = logits["logits"][name].get<Logits>();
    const Reader reader = open_adapters(goldens / name);
    CHECK(reader.base() == goldens / name / "../../hugging_face" / name);
    CHECK(distance(logits_of(config_of(reader), reader, tokens), expected) < 1e-5);
    const Reader base = open_hugging_face(reader.base());
    CHECK(distance(logits_of(config_of(base), base, tokens), expected) > 1e-2);
    const testing::TemporaryFolder folder;
    const Reader copy = imported(reader, folder.path / "checkpoints");
    CHECK(distance(logits_of(config_of(reader), copy, tokens), expected) < 1e-5);
  }
}

TEST_CASE("an export merges adapters into weights as PEFT does, within 1e-6") {
  for (const char* name : names) {
    CAPTURE(name);
    const testing::TemporaryFolder folder;
    const Reader reader = open_adapters(goldens / name);
    const Reader copy = imported(reader, folder.path / "checkpoints");
    export_hugging_face(copy, folder.path / "out", {});
    const TensorSet ours(folder.path, {folder.path / "out" / "model.safetensors"});
    const TensorSet theirs(goldens, {goldens / (std::string(name) + "_merged.safetensors")});
    for (const std::string& tensor : theirs.names()) {
      const std::vector<float> a = all_of(ours, tensor), b = all_of(theirs, tensor);
      double most = 0;
      for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
      CAPTURE(tensor);
      CHECK(most < 1e-6);
    }
    const Reader merged = open_hugging_face(folder.path / "out"), base = open_hugging_face(reader.base());
    CHECK(merged.weights().names() == base.weights().names());
    for (const std::string& weight : base.weights().names()) {
      const std::string layer = weight.substr(0, weight.rfind('.'));
      const bool changed = all_of(merged.weights(), weight) != all_of(base.weights(), weight);
      CHECK(changed == (weight.ends_with(".weight") && reader.weights().has(layer + ".lora_A.weight")));
    }
  }
}

TEST_CASE("a part of a merged weight is what the whole has there, wherever it begins and ends") {
  for (const char* name : names) {
    const Reader reader = open_adapters(goldens / name);
    const std::string weight =
        name == std::string("gpt2") ? "h.1.attn.c_attn.weight" : "model.layers.1.self_attn.q_proj.weight";
    const auto count = static_cast<size_t>(reader.weights().elements(weight));
    std::vector<float> whole(count);
    MergedWeights(reader).read(weight, 0, whole, core::DType::f32);
    CHECK(whole != all_of(reader.weights(), weight));
    for (const auto& [begin, length] : {std::pair<size_t, size_t>{0, 1}, {23, 2}, {count - 7, 7}, {5, 100}}) {
      std::vector<float> part(length);
      MergedWeights(reader).read(weight, static_cast<int64_t>(begin), part, core::DType::f32);
      CHECK(part == std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(begin),
                                       whole.begin() + static_cast<std::ptrdiff_t>(begin + length)));
    }
  }
}

TEST_CASE("adapters that are written for PEFT have the values, names and settings of those that were read") {
  for (const char* name : names) {
    CAPTURE(name);
    const testing::TemporaryFolder folder;
    const Reader reader = open_adapters(goldens / name);
    export_adapters(reader, folder.path / "out");
    const TensorSet ours(folder.path, {folder.path / "out" / adapter_weights_name});
    const TensorSet theirs(goldens, {goldens / name / adapter_weights_name});
    CHECK(ours.names() == theirs.names());
    for (const std::string& tensor : theirs.names()) {
      CHECK(all_of(ours, tensor) == all_of(theirs, tensor));
      CHECK(ours.shape(tensor) == theirs.shape(tensor));
    }
    const Json made = json_of(folder.path / "out" / adapter_config_name);
    const Json given = json_of(goldens / name / adapter_config_name);
    for (const char* key : {"peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "fan_in_fan_out",
                            "bias", "inference_mode"}) {
      CAPTURE(key);
      CHECK(made.at(key) == given.at(key));
    }
    const Reader again = open_adapters(folder.path / "out");
    CHECK(again.manifest().model == reader.manifest().model);
  }
}

TEST_CASE("a folder of PEFT that asks for what zrt does not do is refused by the key") {
  const auto refused = [](const char* key, const Json& value) {
    Copy copy;
    copy.config[key] = value;
    const std::string text = copy.refusal();
    contains(text, adapter_config_name);
    contains(text, std::string("'") + key + "'");
  };
  CHECK(Copy().refusal().empty());
  refused("peft_type", "IA3");
  refused("bias", "all");
  refused("modules_to_save", Json::array({"lm_head"}));
  refused("rank_pattern", Json{{"q_proj", 4}});
  refused("alpha_pattern", Json{{"q_proj", 4}});
  refused("use_dora", true);
  refused("init_lora_weights", "pissa");
  refused("trainable_token_indices", Json::array({3}));
  refused("lora_bias", true);
  refused("a_key_of_tomorrow", 1);
  refused("lora_alpha", "16");
  refused("base_model_name_or_path", "somebody/some-model");
}

TEST_CASE("adapters of another base, and ones that are no safetensors, are refused") {
  Copy copy;
  copy.config["base_model_name_or_path"] = (goldens / ".." / "hugging_face" / "gpt2").string();
  contains(copy.refusal(), "is of no linear layer of the base");
  Copy bare;
  fs::remove(bare.path / adapter_weights_name);
  contains(bare.refusal(), adapter_weights_name);
}

}  // namespace zrt::adapter_files_test
