// Directories that transformers wrote: imported or read where they lie, they give transformers' logits; exported again,
// the same tensors.

#include "models/hugging_face.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "runtime/config/config.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::hugging_face_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using namespace zrt::hugging_face_logits;
namespace fs = std::filesystem;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "hugging_face";

// Log-probabilities of every token at every position, of a model that sees both sides and so has no logits token by
// token: each is the loss of a batch whose only target it is.
std::vector<std::vector<float>> log_probabilities_of(const runtime::Config& config, const Reader& reader,
                                                     const std::vector<int32_t>& tokens) {
  const models::Model model = config.model.make();
  runtime::Layout layout = runtime::make_layouts(config, model).front();
  layout.device = zrt::test::test_device();
  runtime::require_tensors(reader, layout, false);
  size_t position = 0;
  int32_t target = 0;
  runtime::Session session(
      runtime::compile(layout, {"load", "eval"}), runtime::session_options(config),
      {[&](int, uint32_t, const runtime::data::SampleRows& to) {
         std::copy(tokens.begin(), tokens.end(), to.tokens);
         std::fill_n(to.targets, tokens.size(), models::not_counted);
         to.targets[position] = target;
       },
       [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); }});
  session.run("load", {});
  std::vector<std::vector<float>> result;
  for (position = 0; position < tokens.size(); ++position) {
    result.emplace_back();
    for (target = 0; target < config.model.vocab; ++target) {
      session.run("eval", {});
      result.back().push_back(-static_cast<float>(session.executor(0).control().mean_loss));
    }
  }
  return result;
}

// Minus the loss of each order of runs, for each token that a sample may be to name beside.
std::vector<float> log_orders_of(const runtime::Config& config, const Reader& reader,
                                 const std::vector<int32_t>& tokens) {
  const models::Model model = config.model.make();
  runtime::Layout layout = runtime::make_layouts(config, model).front();
  layout.device = zrt::test::test_device();
  int32_t order = models::in_order;
  runtime::Session session(
      runtime::compile(layout, {"load", "eval"}), runtime::session_options(config),
      {[&](int, uint32_t, const runtime::data::SampleRows& to) {
         std::copy(tokens.begin(), tokens.end(), to.tokens);
         std::fill_n(to.targets, tokens.size(), models::not_counted);
         to.targets[0] = order, to.targets[3] = tokens[3];
       },
       [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); }});
  session.run("load", {});
  std::vector<float> result;
  for (order = models::in_order; order >= models::swapped; --order) {
    session.run("eval", {});
    result.push_back(-static_cast<float>(session.executor(0).control().mean_loss));
  }
  return result;
}

// Some folders have a file of their own.
nlohmann::json logits_beside(const std::string& name, const nlohmann::json& of_all) {
  std::ifstream own(goldens / name / "logits.json");
  return own ? nlohmann::json::parse(own) : of_all["logits"][name];
}

std::vector<double> log_softmax(std::vector<double> logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (double& logit : logits) logit -= std::log(sum);
  return logits;
}

// The hash of the weights that a run of these ranks starts with.
std::string loaded(const Json& section, const Reader& reader, int ranks, int stage) {
  const Json json{{"train_batch_size", 4}, {"zero_optimization", {{"stage", stage}}}, {"model", section}};
  const runtime::Config config = runtime::parse_config(json.dump(), "test", {}, ranks);
  const models::Model model = config.model.make();
  runtime::Layout layout = runtime::make_layouts(config, model).front();
  layout.device = zrt::test::test_device();
  runtime::require_tensors(reader, layout, false);
  runtime::Session session(
      runtime::compile(layout, {"load", "step", "export"}), runtime::session_options(config),
      {nullptr, [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); }});
  session.run("load", {});
  return session.state_xxh3();
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE(
    "GPT-2, Llama, Qwen, BERT, Mistral, Phi-3 and Gemma directories of transformers import to the same logits within "
    "1e-5") {
  std::ifstream in(goldens / "logits.json");
  const auto json = nlohmann::json::parse(in);
  const auto tokens = json["tokens"].get<std::vector<int32_t>>();
  for (const char* name :
       {"gpt2",        "gpt2_untied", "llama",         "llama_tied",          "qwen3",         "qwen3_untied", "bert",
        "bert_untied", "bert_order",  "megatron_bert", "megatron_bert_order", "mistral",       "mistral_all",  "gemma2",
        "gemma3",      "phi3_window", "qwen2_window",  "qwen3_window",        "gemma3_linear", "gemma3_yarn"}) {
    INFO(name);
    const testing::TemporaryFolder folder;
    const Reader from = open_hugging_face(goldens / name);
    const runtime::Config config = config_of(from);
    const fs::path checkpoint = import_hugging_face(from, runtime::model_json(config), folder.path / "checkpoints");
    auto expected = logits_beside(name, json).get<std::vector<std::vector<double>>>();
    const bool both_sides = config.model.make().masking.has_value();
    for (std::vector<double>& row : expected) {
      if (both_sides) row = log_softmax(row);
    }
    const auto get = both_sides ? log_probabilities_of : logits_of;
    const auto actual = get(config, Reader(checkpoint, true), tokens);
    double worst = 0;
    // The row of the first token names no token where it tells the order of runs.
    for (size_t t = json["order"].contains(name) ? 1 : 0; t < tokens.size(); ++t) {
      for (size_t v = 0; v < expected[t].size(); ++v) {
        worst = std::max(worst, std::abs(static_cast<double>(actual[t][v]) - expected[t][v]));
      }
    }
    CHECK(worst < 1e-5);
    CHECK(get(config, from, tokens) == actual);
    if (json["order"].contains(name)) {
      const auto logits = json["order"][name].get<std::vector<double>>();
      const auto orders = log_orders_of(config, from, tokens);
      const double difference = static_cast<double>(orders[0] - orders[1]), weight = 2;  // as of 16 tokens 2 are named
      CHECK(std::abs(difference / weight - (logits[0] - logits[1])) < 1e-5);
    }

    // An export has the same bytes of every tensor, in one file or several.
    for (uint64_t shard_bytes : {uint64_t{1} << 30, uint64_t{5000}}) {
      const fs::path out = folder.path / ("export" + std::to_string(shard_bytes));
      const auto files = export_hugging_face(Reader(checkpoint, true), out, {core::DType::f32, shard_bytes});
      CHECK((files.size() > 2) == (shard_bytes == 5000));
      // Its config.json has no key that zrt does not know.
      const Reader again = open_hugging_face(out, [](const std::string& text) { FAIL_CHECK(text); });
      CHECK(runtime::model_json(config_of(again)) == runtime::model_json(config));
      REQUIRE(again.weights().names() == from.weights().names());
      for (const std::string& tensor : from.weights().names()) {
        const auto& shape = from.weights().shape(tensor);
        CHECK(again.weights().shape(tensor) == shape);
        int64_t count = 1;
        for (int64_t extent : shape) count *= extent;
        std::vector<float> a(static_cast<size_t>(count)), b = a;
        from.read(tensor, 0, a);
        again.read(tensor, 0, b);
        CHECK(a == b);
      }
    }
  }
}

TEST_CASE("A run starts from a folder with the bits that it would have from an import of it, on any ranks and stage") {
  for (const char* name :
       {"gpt2", "llama", "llama_tied", "qwen3", "bert", "megatron_bert", "mistral", "gemma2", "gemma3"}) {
    for (core::DType type : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
      const testing::TemporaryFolder folder;
      export_hugging_face(open_hugging_face(goldens / name), folder.path / "plain", {type, 5000});
      const Reader plain = open_hugging_face(folder.path / "plain");
      const Json model = runtime::model_json(config_of(plain));
      const Reader imported(import_hugging_face(plain, model, folder.path / "checkpoints"), true);
      const std::string expected = loaded(plain.manifest().model, imported, 1, 0);
      for (int ranks : {1, 2, 4}) {
        for (int stage : {0, 3}) {
          INFO(name << " in " << core::dtype_name(type) << " on " << ranks << " ranks at stage " << stage);
          CHECK(loaded(plain.manifest().model, imported, ranks, stage) == expected);
          CHECK(loaded(plain.manifest().model, plain, ranks, stage) == expected);
        }
      }
    }
  }
}

TEST_CASE("Every key of windows, caps, norms and positions that config.json says changes the logits") {
  struct Change {
    const char *name, *key;
    Json value;
    Json without = Json::array();  // keys that say the same
  };
  const auto rope = [](double theta) { return Json{{"rope_type", "default"}, {"rope_theta", theta}}; };
  const auto apart = [&](double full, double sliding) {
    return Json{{"full_attention", rope(full)}, {"sliding_attention", rope(sliding)}};
  };
  const auto stretched = [&](const char* type, double factor, double theta) {
    Json both = apart(theta, 200);
    Json& of_full = both["full_attention"];
    of_full["rope_type"] = type, of_full["factor"] = factor;
    if (of_full["rope_type"] != "llama3") return both;
    of_full["low_freq_factor"] = 1, of_full["high_freq_factor"] = 4, of_full["original_max_position_embeddings"] = 16;
    return both;
  };
  const Json full = "full_attention", sliding = "sliding_attention";
  for (const Change& change : {Change{"mistral", "sliding_window", 4},
                               Change{"mistral", "sliding_window", nullptr},
                               Change{"mistral", "rms_norm_eps", 0.1},
                               Change{"mistral", "rope_parameters", rope(77)},
                               Change{"gemma2", "sliding_window", 5},
                               Change{"gemma2", "layer_types", Json::array({full, full, full})},
                               Change{"gemma2", "layer_types", Json::array({sliding, sliding, sliding})},
                               Change{"gemma2", "query_pre_attn_scalar", 15},
                               Change{"gemma2", "attn_logit_softcapping", nullptr},
                               Change{"gemma2", "attn_logit_softcapping", 2.5},
                               Change{"gemma2", "final_logit_softcapping", nullptr},
                               Change{"gemma2", "final_logit_softcapping", 3.5},
                               Change{"gemma2", "rms_norm_eps", 0.1},
                               Change{"gemma2", "rope_parameters", rope(77)},
                               Change{"gemma3", "rope_parameters", apart(30000, 77)},
                               Change{"gemma3", "rope_parameters", apart(77, 200)},
                               Change{"gemma3", "query_pre_attn_scalar", 15},
                               Change{"gemma3", "rope_local_base_freq", 77, {"rope_parameters"}},
                               Change{"gemma3", "sliding_window_pattern", 2, {"layer_types"}},
                               Change{"gemma3", "sliding_window", 5},
                               Change{"gemma3", "attn_logit_softcapping", 2.0},
                               Change{"gemma3", "final_logit_softcapping", 2.0},
                               Change{"phi3_window", "sliding_window", 4},
                               Change{"phi3_window", "sliding_window", nullptr},
                               Change{"qwen2_window", "sliding_window", 4},
                               Change{"qwen2_window", "sliding_window", nullptr, {"layer_types"}},
                               Change{"qwen2_window", "use_sliding_window", false, {"layer_types"}},
                               Change{"qwen2_window", "max_window_layers", 2, {"layer_types"}},
                               Change{"qwen2_window", "layer_types", Json::array({full, full, sliding})},
                               Change{"qwen3_window", "sliding_window", 5},
                               Change{"qwen3_window", "use_sliding_window", nullptr, {"layer_types"}},
                               Change{"qwen3_window", "max_window_layers", 0, {"layer_types"}},
                               Change{"qwen3_window", "layer_types", Json::array({full, full, full})},
                               Change{"gemma3_linear", "rope_parameters", stretched("linear", 4, 500)},
                               Change{"gemma3_linear", "rope_parameters", stretched("linear", 8, 400)},
                               Change{"gemma3_linear", "rope_parameters", stretched("llama3", 8, 500)},
                               Change{"gemma3_linear", "rope_parameters", apart(500, 200)}}) {
    INFO(change.name << ": " << change.key << " = " << change.value.dump());
    const testing::TemporaryFolder folder;
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 12; ++i) tokens.push_back((5 * i * i + 1) % 61);
    const auto logits = [&](bool changed) {
      const fs::path copy = folder.path / (changed ? "changed" : "given");
      fs::copy(goldens / change.name, copy);
      std::ifstream in(copy / "config.json");
      Json config = Json::parse(in);
      for (const Json& key : change.without) config.erase(key.get<std::string>());
      if (changed) config[change.key] = change.value;
      std::ofstream(copy / "config.json") << config.dump();
      const Reader reader = open_hugging_face(copy);
      return logits_of(config_of(reader), reader, tokens);
    };
    const auto before = logits(false), after = logits(true);
    float most = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (size_t v = 0; v < before[t].size(); ++v) most = std::max(most, std::abs(after[t][v] - before[t][v]));
    }
    CHECK(most > 1e-3f);
  }
}

TEST_CASE("An export rounds every weight once to its type, which config.json names as the files do") {
  struct Type {
    core::DType type;
    const char *in_config, *in_files;
    float (*rounded)(float);
  };
  const testing::TemporaryFolder folder;
  const Reader from = open_hugging_face(goldens / "llama");
  const fs::path checkpoint =
      import_hugging_face(from, runtime::model_json(config_of(from)), folder.path / "checkpoints");
  for (const Type& each :
       {Type{core::DType::f32, "float32", "F32", [](float x) { return x; }},
        Type{core::DType::bf16, "bfloat16", "BF16", [](float x) { return core::to_float(core::to_bf16(x)); }},
        Type{core::DType::f16, "float16", "F16", [](float x) { return core::to_float(core::to_f16(x)); }}}) {
    INFO(each.in_config);
    const fs::path out = folder.path / each.in_config;
    const fs::path beside = out.string() + ".tmp";  // a folder of somebody else
    fs::create_directories(beside / "mine");
    export_hugging_face(Reader(checkpoint, true), out, {each.type, 1u << 30});
    const Reader again = open_hugging_face(out);
    std::vector<float> a(24), b(24);
    from.read("model.norm.weight", 0, a);
    again.read("model.norm.weight", 0, b);
    for (size_t i = 0; i < a.size(); ++i) CHECK(b[i] == each.rounded(a[i]));
    for (const std::string& tensor : again.weights().names()) CHECK(again.weights().dtype(tensor) == each.in_files);
    std::ifstream in(out / "config.json");
    CHECK(nlohmann::json::parse(in)["torch_dtype"] == each.in_config);
    CHECK(fs::exists(beside / "mine"));
    CHECK(message([&] { export_hugging_face(Reader(checkpoint, true), out, {}); }).find("exists already") !=
          std::string::npos);
  }
}

TEST_CASE("A directory that zrt's models cannot be is refused with the key and what is legal") {
  std::ifstream in(goldens / "llama/config.json");
  const Json good = Json::parse(in);
  CHECK(message([&] { models::from_hugging_face(good, "c"); }).empty());
  const auto refuse = [&](const char* key, const Json& value) {
    Json bad = good;
    bad[key] = value;
    INFO(key);
    CHECK(message([&] { models::from_hugging_face(bad, "c"); }).find(key) != std::string::npos);
  };
  refuse("model_type", "t5");
  refuse("hidden_act", "gelu");
  refuse("attention_bias", true);
  refuse("head_dim", 0);
  refuse("head_dim", "5");
  refuse("model_type", 5);
  refuse("tie_word_embeddings", "no");
  refuse("num_attention_heads", 1e300);
  refuse("num_hidden_layers", 0);
  refuse("num_key_value_heads", 0);
  refuse("hidden_size", "many");
  refuse("rope_scaling", Json{{"rope_type", "longrope"}, {"factor", 2}});
  std::ifstream in_qwen(goldens / "qwen3/config.json");
  const Json qwen = Json::parse(in_qwen);
  CHECK(message([&] { models::from_hugging_face(qwen, "c"); }).empty());
  for (const auto& [key, value] : std::map<std::string, Json>{{"use_sliding_window", "always"},
                                                              {"layer_types", {"sliding_attention"}},
                                                              {"rope_scaling", {{"rope_type", "ntk"}, {"factor", 4}}},
                                                              {"attention_bias", true}}) {
    Json bad = qwen;
    bad[key] = value;
    INFO(key);
    CHECK(message([&] { models::from_hugging_face(bad, "c"); }).find(key) != std::string::npos);
  }
  CHECK(message([&] {
          Json bad = good;
          bad["rope_scaling"] = Json{{"rope_type", nullptr}};
          models::from_hugging_face(bad, "c");
        }).find("rope_type") != std::string::npos);
}

}  // namespace zrt::hugging_face_test
