// Folders of transformers whose layers have experts: their logits, every key that is read, both forms of files.
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/exchange.h"
#include "tests/runtime/train/fused_copy.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::hugging_face_experts_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using namespace zrt::hugging_face_logits;
using hugging_face_copy::Copy, hugging_face_copy::read_tensors;
namespace fs = std::filesystem;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "hugging_face";

Json golden() {
  return Json::parse(core::read_text(goldens / "logits_experts.json", 1 << 20));
}

Logits logits_of_folder(const fs::path& folder) {
  const Reader reader = open_hugging_face(folder);
  return logits_of(config_of(reader), reader, golden()["tokens"]);
}

std::vector<float> values_of(const Reader& reader, const std::string& tensor) {
  std::vector<float> values(static_cast<size_t>(reader.weights().elements(tensor)));
  reader.read(tensor, 0, values);
  return values;
}

}  // namespace

TEST_CASE("Mixtral and Qwen3-MoE give transformers' logits within 1e-5, and go out with the same bytes") {
  size_t compared = 0;
  const Json all = golden();
  for (const auto& [name, logits] : all["logits"].items()) {
    INFO(name);
    CHECK(distance(logits_of_folder(goldens / name), logits.get<Logits>()) < 1e-5);
    const testing::TemporaryFolder folder;
    const Reader from = open_hugging_face(goldens / name, [](const std::string& said) { FAIL_CHECK(said); });
    const fs::path checkpoint =
        import_hugging_face(from, runtime::model_json(config_of(from)), folder.path / "checkpoints");
    export_hugging_face(Reader(checkpoint, true), folder.path / "out", {});
    const Reader again = open_hugging_face(folder.path / "out", [](const std::string& said) { FAIL_CHECK(said); });
    CHECK(runtime::model_json(config_of(again)) == runtime::model_json(config_of(from)));
    REQUIRE(again.weights().names() == from.weights().names());
    for (const std::string& tensor : from.weights().names()) CHECK(values_of(again, tensor) == values_of(from, tensor));
    CHECK(logits_of_folder(folder.path / "out") == logits_of_folder(goldens / name));
    CHECK(read_tensors(folder.path / "out/model.safetensors") == read_tensors(goldens / name / "model.safetensors"));
    ++compared;
  }
  CHECK(compared == 6);
}

TEST_CASE("Every key of experts that config.json says changes the logits") {
  struct Change {
    const char *folder, *key;
    Json value;
  };
  const std::vector<Change> changes{{"mixtral", "num_experts_per_tok", 1},
                                    {"mixtral", "num_experts_per_tok", 4},
                                    {"mixtral", "rms_norm_eps", 0.01},
                                    {"mixtral", "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 50.0}}},
                                    {"mixtral", "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
                                    {"mixtral_window", "sliding_window", 7},
                                    {"mixtral_window", "sliding_window", nullptr},
                                    {"qwen3_moe_window", "sliding_window", 7},
                                    {"qwen3_moe_window", "use_sliding_window", false},
                                    {"qwen3_moe", "num_experts_per_tok", 3},
                                    {"qwen3_moe", "norm_topk_prob", false},
                                    {"qwen3_moe_step", "norm_topk_prob", true},
                                    {"qwen3_moe", "rms_norm_eps", 0.01}};
  for (const Change& change : changes) {
    INFO(change.folder << ": " << change.key << " = " << change.value.dump());
    const Logits plain = logits_of_folder(goldens / change.folder);
    const Copy copy(change.folder);
    copy.change_json("config.json", [&](Json& json) { json[change.key] = change.value; });
    CHECK(distance(logits_of_folder(copy.path), plain) > 1e-4);
  }
}

TEST_CASE("A base of positions that a Mixtral leaves out is its class's") {
  const Copy copy("mixtral");
  copy.change_json("config.json", [](Json& json) { json.erase("rope_parameters"); });
  CHECK(logits_of_folder(copy.path) == logits_of_folder(goldens / "mixtral"));
}

TEST_CASE("Sizes of experts that the weights do not have are refused by the tensor's name") {
  for (const auto& [folder, key, value, tensor] :
       {std::tuple{"mixtral", "num_local_experts", 3, "model.layers.0.block_sparse_moe.experts.3.w1.weight"},
        {"mixtral", "num_local_experts", 5, "model.layers.0.mlp.gate.weight"},
        {"mixtral", "intermediate_size", 48, "model.layers.0.mlp.experts.0.gate_proj.weight"},
        {"mixtral_fused", "num_local_experts", 4, "model.layers.0.mlp.experts.down_proj"},
        {"mixtral_fused", "intermediate_size", 48, "model.layers.0.mlp.experts.down_proj"},
        {"qwen3_moe", "moe_intermediate_size", 12, "model.layers.0.mlp.experts.0.gate_proj.weight"},
        {"qwen3_moe_step", "decoder_sparse_step", 1, "model.layers.0.mlp"}}) {
    INFO(folder << ": " << key << " = " << value);
    const Copy copy(folder);
    copy.change_json("config.json", [&, name = key, to = value](Json& json) { json[name] = to; });
    contains(copy.error(), tensor);
  }
}

TEST_CASE("What a class with experts can and zrt cannot is refused by name") {
  Copy dense("qwen3_moe"), logits("mixtral");
  dense.set("mlp_only_layers", Json{0});
  contains(dense.error(), "'mlp_only_layers'");
  logits.set("router_jitter_noise", 0.1);
  CHECK(logits.error().empty());  // of training alone, so a warning
}

}  // namespace zrt::hugging_face_experts_test
