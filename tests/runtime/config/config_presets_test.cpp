// Sizes of models: presets, and what is left open.

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_presets_test {

using namespace zrt::runtime;

TEST_CASE("presets fill the sizes that are not given") {
  for (const std::string& name : zrt::models::preset_names()) {
    INFO(name);
    const auto [spec, preset] = zrt::models::find_preset(name);
    const Config config = parsed("", {"model.preset=" + name});
    CHECK(config.model.type == spec->type);
    CHECK(config.model.preset == name);
    CHECK(config.model.tied == (preset->keys.contains("tied") || spec->tied));
    for (const auto& [key, value] : preset->keys) CHECK(in_force(config, "model." + key) == value);
    const zrt::models::Model model = config.model.make();
    CHECK(model.type == spec->type);
    CHECK(model.layers == config.model.layers);
    CHECK(model.vocab == config.model.vocab);
  }
  const Config config = parsed(R"("run": {"steps": 1},)", {"model.sequence=16"});
  CHECK(config.model.sequence == 16);
  CHECK(config.model.hidden == 64);
  const Config won = parse_config(
      R"({"train_batch_size": 1, "model": {"layers": 9, "hidden": 8, "heads": 2, "sequence": 4, "vocab": 5}})", "c",
      {"model.preset=gpt2-10m", "model.heads=12"}, 1);
  CHECK(won.model.layers == 6);
  CHECK(won.model.heads == 12);
  CHECK(warned(won, "model.layers = 9"));
}

TEST_CASE(
    "tensor-parallel ranks share rows by either name of the key; one rank has nobody to share with, and says so") {
  const std::string file =
      R"({"train_batch_size": 2, "model": {"layers": 1, "hidden": 8, "heads": 2, "sequence": 4, "vocab": 5}})";
  for (const char* name : {"parallel.sequence=true", "parallel.sequence_parallel=true",
                           "activation_checkpointing.partition_activations=true"}) {
    const Config shared = parse_config(file, "c", {"parallel.tensor=2", name}, 2);
    CHECK(shared.model.degrees.sequence_parallel);
    CHECK(shared.model.make().blocks[1]->params().front().summed);
    const Config alone = parse_config(file, "c", {name}, 2);
    CHECK_FALSE(alone.model.degrees.sequence_parallel);
    CHECK(warned(alone,
                 std::string(name).starts_with("parallel") ? "parallel.sequence = true" : "partition_activations"));
  }
}

TEST_CASE("a Llama takes its own keys, and what is left open is as the paper has it") {
  const auto llama = [](const std::string& more) {
    return parse_config(R"({"train_batch_size": 1, "model": {"type": "llama", "layers": 2, "hidden": 64, "heads": 4,
        "sequence": 8, "vocab": 9)" +
                            more + "}}",
                        "c", {}, 1);
  };
  const Config plain = llama("");
  CHECK(plain.model.type == "llama");
  CHECK(in_force(plain, "model.kv_heads") == 4);
  CHECK(in_force(plain, "model.ffn") == 256);
  CHECK(in_force(plain, "model.rope_theta") == 10000);
  CHECK(in_force(plain, "model.rms_norm_eps") == 1e-5);
  CHECK(in_force(plain, "model.rope_scaling.rope_type") == "default");
  CHECK(in_force(plain, "model.rope_scaling.factor").is_null());
  CHECK(!plain.model.tied);
  const Config given = llama(R"(, "kv_heads": 2, "ffn": 100, "rope_theta": 5e5, "rms_norm_eps": 1e-6, "tied": true,
      "rope_scaling": {"rope_type": "llama3", "factor": 32, "original_max_position_embeddings": 4096})");
  CHECK(in_force(given, "model.kv_heads") == 2);
  CHECK(in_force(given, "model.ffn") == 100);
  CHECK(in_force(given, "model.rope_theta") == 500000);
  CHECK(in_force(given, "model.rms_norm_eps") == 1e-6);
  CHECK(given.model.tied);
  CHECK(in_force(given, "model.rope_scaling.factor") == 32);
  CHECK(in_force(given, "model.rope_scaling.low_freq_factor") == 1);
  CHECK(in_force(given, "model.rope_scaling.high_freq_factor") == 4);
  CHECK(in_force(given, "model.rope_scaling.original_max_position_embeddings") == 4096);
  CHECK(in_force(llama(R"(, "rope_scaling": null)"), "model.rope_scaling.rope_type") == "default");
  // A layer has two gains, queries and output, keys and values, and three matrices of the MLP.
  const int64_t layer = 2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 100 * 64;
  CHECK(given.model.make().parameters() == 9 * 64 + 2 * layer + 64);
}

TEST_CASE("a preset on the command line replaces a model of another type") {
  const std::string file = R"({"train_batch_size": 1, "model": {"type": "llama", "layers": 2, "hidden": 64, "heads": 4,
      "kv_heads": 2, "sequence": 8, "vocab": 9, "rope_scaling": {"rope_type": "llama3"}}})";
  const Config gpt2 = parse_config(file, "c", {"model.preset=gpt2-10m"}, 1);
  CHECK(gpt2.model.type == "gpt2");
  CHECK(gpt2.model.hidden == 384);
  CHECK(gpt2.model.tied);
  CHECK(warned(gpt2, "model.type = \"llama\""));
  CHECK(warned(gpt2, "model.kv_heads = 2"));
  const Config llama = parse_config(file, "c", {"model.preset=llama-10m"}, 1);
  CHECK(in_force(llama, "model.ffn") == 1024);
  CHECK(in_force(llama, "model.rope_scaling.rope_type") == "default");
}

}  // namespace zrt::config_presets_test
