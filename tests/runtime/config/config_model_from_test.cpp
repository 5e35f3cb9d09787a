// The model from a folder: what is taken, what replaces it, what is refused, and that a run's file needs no folder.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/train/checkpoint/manifest.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_model_from_test {

namespace fs = std::filesystem;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

std::string golden(const std::string& name) {
  return zrt::test::data_folder() + "/hugging_face/" + name;
}

std::string text_of(const json& model, const json& more = json::object()) {
  json config{{"train_batch_size", 1}, {"model", model}};
  config.merge_patch(more);
  return config.dump();
}

Config made(const json& model, const Settings& sets = {}, const json& more = json::object()) {
  return parse_config(text_of(model, more), "c", sets, 1);
}

std::string error(const json& model, const Settings& sets = {}, const json& more = json::object()) {
  return error_of([&] { made(model, sets, more); });
}

// The key with its origin.
json resolved(const Config& config, const std::string& path) {
  return json::parse(resolved_json(config)).at(json::json_pointer("/" + path));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

json taken(const json& value) {
  return {{"value", value}, {"from", "folder"}};
}

// A store of one checkpoint whose manifest alone is there.
void write_manifest(const fs::path& step, const checkpoint::Json& model) {
  fs::create_directories(step);
  checkpoint::Manifest manifest;
  manifest.step = 3;
  manifest.model = model;
  manifest.made_by = checkpoint::Json::object();
  std::ofstream(step / checkpoint::manifest_name) << format_manifest(manifest);
}

}  // namespace

TEST_CASE("model.from takes type, sizes, positions and tied embeddings from config.json, and no key is left open") {
  const Config config = made({{"from", golden("llama_tied")}, {"dropout", 0}});
  const auto is = [&](const char* key, const json& value) {
    CAPTURE(key);
    CHECK(resolved(config, std::string("model/") + key) == taken(value));
  };
  is("type", "llama"), is("layers", 1), is("hidden", 24), is("heads", 4), is("kv_heads", 4), is("ffn", 40);
  is("sequence", 16), is("vocab", 61), is("rope_theta", 500.0), is("rms_norm_eps", 1e-6), is("tied", true);
  is("rope_scaling/rope_type", "llama3"), is("rope_scaling/factor", 4.0);
  is("rope_scaling/original_max_position_embeddings", 8);
  CHECK(resolved(config, "model/from") == json{{"value", golden("llama_tied")}, {"from", "file"}});
  CHECK(config.model.from == golden("llama_tied"));
  const Config typed =
      made({{"type", "llama"},
            {"layers", 1},
            {"hidden", 24},
            {"heads", 4},
            {"ffn", 40},
            {"sequence", 16},
            {"vocab", 61},
            {"rope_theta", 500},
            {"rms_norm_eps", 1e-6},
            {"tied", true},
            {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4}, {"original_max_position_embeddings", 8}}}});
  CHECK(config.model.make().parameters() == typed.model.make().parameters());
  CHECK(config.model.make().flops_per_token() == typed.model.make().flops_per_token());
  CHECK(config.warnings == typed.warnings);
  REQUIRE(config.notes.size() == 1);
  CHECK(has(config.notes[0], "llama_tied/config.json (model.from): llama, layers 1, hidden 24, heads 4"));
  for (const char* name : {"gpt2", "gpt2_untied", "llama", "qwen3", "qwen3_untied", "bert", "megatron_bert"}) {
    CAPTURE(name);
    CHECK(made({{"from", golden(name)}}).model.make().parameters() > 0);
  }
}

TEST_CASE("keys beside model.from replace the folder's, with a line; those of a folder on the command line give way") {
  const Config config = made({{"from", golden("llama")}, {"sequence", 8}, {"rope_scaling", {{"rope_type", "llama3"}}}});
  CHECK(config.model.sequence == 8);
  CHECK(resolved(config, "model/sequence")["from"] == "file");
  CHECK(has(joined(config.notes), "model.sequence = 8 (c:1) replaces 16 of " + golden("llama") + "/config.json."));
  CHECK(has(joined(config.notes), "model.rope_scaling.rope_type = \"llama3\" (c:1) is added to what "));
  CHECK(joined(config.warnings).find("model.") == std::string::npos);
  const Config equal = made({{"from", golden("llama")}, {"sequence", 16}});
  CHECK((equal.notes.size() == 1 && resolved(equal, "model/sequence")["from"] == "file"));

  const json written{{"type", "llama"}, {"layers", 3}, {"hidden", 32}, {"heads", 2}, {"sequence", 4}, {"vocab", 9}};
  const Config other = made(written, {"model.from=" + golden("qwen3"), "model.sequence=12"});
  CHECK((other.model.type == "qwen3" && other.model.layers == 2 && other.model.sequence == 12));
  CHECK(has(joined(other.warnings), "model.layers = 3 (c:1) gives way to model.from on the command line."));
  CHECK(has(joined(other.notes), "model.sequence = 12 (--set model.sequence) replaces 16 of "));
  const Config named = made({{"preset", "gpt2-tiny"}}, {"model.from=" + golden("gpt2")});
  CHECK((named.model.preset.empty() && named.model.hidden == 24));
  CHECK(has(joined(named.warnings), "model.preset = \"gpt2-tiny\" (c:1) gives way"));
}

TEST_CASE("a folder and a preset, another type, and a folder that says no model are refused with what is legal") {
  CHECK(has(error({{"from", golden("gpt2")}, {"preset", "gpt2-tiny"}}), "both say the sizes of the model"));
  CHECK(has(error({{"from", golden("gpt2")}, {"type", "llama"}}), "contradicts model.from = "));
  CHECK(has(error({{"from", golden("gpt2")}, {"ffn", 7}}), "belongs to model.type = "));
  const zrt::testing::TemporaryFolder folder;
  const std::string path = folder.path.string();
  CHECK(has(error({{"from", path + "/none"}}), "none: is no folder"));
  CHECK(has(error({{"from", path}}), "has neither config.json, as folders of Hugging Face have, nor a checkpoint"));
  std::ofstream(folder.path / "config.json") << R"({"model_type": "mamba"})";
  CHECK(has(error({{"from", path}}), "config.json: 'model_type' is 'mamba'; zrt imports "));
  std::ofstream(folder.path / "config.json") << R"({"model_type": "gpt2", "n_layer": "two"})";
  CHECK(has(error({{"from", path}}), "'n_layer' is \"two\""));
  std::ofstream(folder.path / "config.json") << R"({"model_type": "gpt2", "sparse_attention": {"mode": 7}})";
  CHECK(has(error({{"from", path}}), "has 'sparse_attention.mode' = 7; legal: "));
  std::ofstream(folder.path / "config.json") << R"({"model_type": "gpt2", "sinks": 4})";
  CHECK(has(joined(made({{"from", path}}).warnings), "zrt does not know 'sinks' (4)"));
  std::ofstream(folder.path / "config.json") << "{";
  CHECK(has(error({{"from", path}}), "model.from = "));
  CHECK(has(error({{"layers", 2}}), "Give them, or model.from, a folder with a config.json that does"));
}

TEST_CASE("a configuration without a model takes that of the folder that run.resume names, and of a run that goes on") {
  const json resume{{"run", {{"resume", golden("gpt2")}}}};
  const Config config = made({{"sequence", 8}, {"dropout", 0.1}}, {}, resume);
  CHECK((config.model.hidden == 24 && config.model.sequence == 8 && config.model.dropout == 0.1));
  CHECK(resolved(config, "model/from") == json{{"value", golden("gpt2")}, {"from", "inferred"}});
  CHECK(has(joined(config.notes), "gpt2/config.json (run.resume): "));
  CHECK(made({{"preset", "gpt2-tiny"}}, {}, resume).model.hidden == 64);
  CHECK(has(error(json::object(), {}, {{"run", {{"resume", "/nowhere"}}}}), "/nowhere: is no folder"));

  const zrt::testing::TemporaryFolder run;
  const json on{{"run", {{"resume", "auto"}, {"out", run.path.string()}}}};
  CHECK(has(error(json::object(), {}, on), "the model has no size for"));
  write_manifest(run.path / "checkpoints/step_3", {{"type", "gpt2"},
                                                   {"preset", "gpt2-tiny"},
                                                   {"from", "/gone"},
                                                   {"layers", 2},
                                                   {"hidden", 40},
                                                   {"heads", 2},
                                                   {"sequence", 8},
                                                   {"vocab", 11},
                                                   {"dropout", 0.5},
                                                   {"tied", false},
                                                   {"kv_heads", nullptr}});
  const Config again = made(json::object(), {}, on);
  const Config gone = made({{"from", "/gone"}}, {}, on);
  CHECK((gone.model.hidden == 40 && gone.model.from == "/gone"));
  CHECK(has(joined(gone.notes),
            "model.from = \"/gone\" (c:1) is gone; the sizes of the model are those of the checkpoint"));
  CHECK(has(error({{"from", "/gone"}}, {}, {{"run", {{"out", run.path.string()}}}}), "/gone: is no folder"));
  CHECK((again.model.hidden == 40 && !again.model.tied && again.model.dropout == 0 && again.model.preset.empty()));
  for (const char* part : {"", "/checkpoints", "/checkpoints/step_3"}) {
    CAPTURE(part);
    CHECK(made({{"from", run.path.string() + part}}).model.vocab == 11);
  }
}

TEST_CASE("the file of a run is complete without the folder, and takes another one where the command line names it") {
  const zrt::testing::TemporaryFolder folder;
  const fs::path plain = folder.path / "plain";
  fs::create_directories(plain);
  fs::copy(golden("llama_tied") + "/config.json", plain / "config.json");
  const Config config = made({{"from", plain.string()}, {"sequence", 8}}, {}, {{"train_micro_batch_size_per_gpu", 1}});
  fs::remove_all(plain);
  const fs::path file = folder.path / "config.resolved.json";
  std::ofstream(file) << resolved_json(config);
  const Config loaded = load_resolved(file);
  CHECK(resolved_json(loaded) == resolved_json(config));
  CHECK(loaded.notes.empty());
  const Config alone = weights_alone(loaded);
  CHECK(resolved(alone, "model/rope_scaling/factor") == taken(4.0));
  CHECK(resolved(alone, "model/layers") == taken(1));
  CHECK(alone.model.make().parameters() == config.model.make().parameters());
  const Config other = load_resolved(file, {"model.from=" + golden("llama")});
  CHECK((other.model.layers == 2 && other.model.sequence == 16));
  CHECK(resolved(other, "model/rope_scaling/rope_type")["value"] == "default");
}

}  // namespace zrt::config_model_from_test
