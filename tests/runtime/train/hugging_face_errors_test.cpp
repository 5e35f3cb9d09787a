// Folders of Hugging Face that lack something or hold something else: each is refused with what is wrong and where.
#include <fmt/format.h>

#include <filesystem>

#include "catch.h"
#include "core/error.h"
#include "runtime/train/checkpoint/exchange.h"
#include "tests/runtime/train/hugging_face_copy.h"

namespace zrt::hugging_face_errors_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

void rename_key(Json& json, const char* from, const char* to) {
  json[to] = json.at(from);
  json.erase(from);
}

using hugging_face_copy::Copy;

constexpr const char* query = "model.layers.0.self_attn.q_proj.weight";

}  // namespace

TEST_CASE("A folder without one of its files is refused with the name of what it lacks") {
  const Copy whole("llama"), tied("llama_tied");
  CHECK(whole.error().empty());
  CHECK(tied.error().empty());
  fs::remove(tied.path / "model.safetensors");
  contains(tied.error(), "holds neither model.safetensors nor model.safetensors.index.json");
  fs::remove(whole.path / "model-00002-of-00003.safetensors");
  contains(whole.error(), "lies in 'model-00002-of-00003.safetensors', which the folder does not hold");
  CHECK(is_hugging_face(whole.path));  // so that resuming it says what is missing, too
  fs::remove(whole.path / "config.json");
  contains(whole.error(), "has no config.json");
  CHECK(is_hugging_face(whole.path));
  fs::remove_all(whole.path);
  contains(whole.error(), "is no folder");
  CHECK(!is_hugging_face(whole.path));
}

TEST_CASE("A file that was cut is refused as truncated") {
  const Copy copy("llama");
  const fs::path file = copy.path / "model-00003-of-00003.safetensors";
  fs::resize_file(file, fs::file_size(file) - 4);
  contains(copy.error(), file.string());
  contains(copy.error(), "is truncated");
}

TEST_CASE("A tensor that is missing, has another shape or occurs twice is named") {
  const Copy missing("llama_tied");
  missing.change_header("model.safetensors", [](Json& json) { rename_key(json, query, "other"); });
  contains(missing.error(), fmt::format("needs tensor '{}' of shape [24, 24]; there is no such tensor", query));
  const Copy renamed("gpt2");
  renamed.change_header("model.safetensors",
                        [](Json& json) { rename_key(json, "transformer.ln_f.bias", "transformer.ln_f.shift"); });
  contains(renamed.error(), "needs tensor 'ln_f.bias' ('transformer.ln_f.bias' in the files)");
  const Copy flat("llama_tied");
  flat.change_header("model.safetensors", [](Json& json) { json[query]["shape"] = {576}; });
  contains(flat.error(), fmt::format("needs tensor '{}' of shape [24, 24]; it is [576]", query));
  const Copy twice("gpt2");
  twice.change_header("model.safetensors",
                      [](Json& json) { rename_key(json, "transformer.ln_f.weight", "ln_f.bias"); });
  contains(twice.error(), "'ln_f.bias' and 'transformer.ln_f.bias' are both the tensor 'ln_f.bias'");
}

TEST_CASE("A folder with tensors that the model does not have is refused with their number and names") {
  struct Fewer {
    const char *folder, *key, *named;
  };
  for (const Fewer& fewer : {Fewer{"gpt2", "n_layer", "transformer.h.1.attn.c_attn.bias"},
                             Fewer{"llama", "num_hidden_layers", "model.layers.1.input_layernorm.weight"},
                             Fewer{"qwen3", "num_hidden_layers", "model.layers.1.input_layernorm.weight"},
                             Fewer{"bert", "num_hidden_layers", "bert.encoder.layer.1.attention.output.dense.bias"},
                             Fewer{"megatron_bert", "num_hidden_layers", "bert.encoder.layer.1.attention.ln.bias"}}) {
    INFO(fewer.folder);
    const Copy copy(fewer.folder);
    CHECK(copy.error().empty());
    copy.set(fewer.key, 1);
    if (copy.has("layer_types")) copy.set("layer_types", {"full_attention"});
    const std::string error = copy.error();
    contains(error, "the model of 1 layers has");
    contains(error, fewer.named);
    contains(error, "more. Correct config.json");
  }
  // Other heads and adapters leave tensors beside a model's own.
  for (const char* name : {"score.weight", "transformer.h.0.attn.lora_A.weight", "v_head.summary.weight"}) {
    const Copy copy("gpt2");
    copy.add_copy("transformer.ln_f.bias", name);
    contains(copy.error(),
             fmt::format("the files hold 29 tensors and the model of 2 layers has 28: it has no '{}'. ", name));
  }
  // transformers leaves masks there that nothing reads.
  const Copy masks("gpt2");
  masks.add_copy("transformer.ln_f.bias", "transformer.h.0.attn.bias");
  masks.add_copy("transformer.ln_f.bias", "transformer.h.1.attn.masked_bias");
  CHECK(masks.error().empty());
}

TEST_CASE("A tied matrix that files hold twice must be the same, else it is refused with both values") {
  struct Twice {
    const char *folder, *embedding, *head;
  };
  for (const Twice& twice :
       {Twice{"gpt2", "transformer.wte.weight", "lm_head.weight"},
        Twice{"llama_tied", "model.embed_tokens.weight", "lm_head.weight"},
        Twice{"qwen3", "model.embed_tokens.weight", "lm_head.weight"},
        Twice{"bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
        Twice{"megatron_bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
        Twice{"bert_order", "cls.predictions.bias", "cls.predictions.decoder.bias"}}) {
    INFO(twice.folder);
    const Copy once(twice.folder), both(twice.folder), head(twice.folder);
    both.add_copy(twice.embedding, twice.head);
    CHECK(both.same_weights(once));
    both.change_file("model.safetensors", [](Json&, std::string& data) { data[data.size() - 1] ^= 1; });
    const std::string error = both.error();
    contains(error, fmt::format("config.json says that '{}' is '{}' ('tie_word_embeddings'), but their elements ",
                                twice.head, twice.embedding));
    contains(error, "Where the two are meant to differ, set tie_word_embeddings to false");
    // Values as they lie in the file.
    float last[2];
    both.change_file("model.safetensors", [&](Json& json, std::string& data) {
      const size_t end = json.at(twice.embedding).at("data_offsets").at(1).get<size_t>();
      std::memcpy(&last[0], data.data() + data.size() - 4, 4);
      std::memcpy(&last[1], data.data() + end - 4, 4);
    });
    contains(error, fmt::format(" are {} and {}. ", last[0], last[1]));
    // Stored under the head's name alone, it is the embedding.
    head.change_header("model.safetensors", [&](Json& json) { rename_key(json, twice.embedding, twice.head); });
    CHECK(head.same_weights(once));
    // In another shape it is no copy.
    const Copy flat(twice.folder);
    flat.add_copy(twice.embedding, twice.head);
    flat.change_header("model.safetensors", [&](Json& json) {
      int64_t count = 1;
      for (const Json& extent : json[twice.head]["shape"]) count *= extent.get<int64_t>();
      json[twice.head]["shape"] = {1, count};
    });
    contains(flat.error(), "but their shapes are [1, ");
  }
}

TEST_CASE(
    "An untied BERT without the copy of its output's bias, as transformers 4 saves it, has the one that is there") {
  const Copy both("bert_untied"), one("bert_untied"), other("bert_untied");
  const char *bias = "cls.predictions.bias", *of_decoder = "cls.predictions.decoder.bias";
  both.overwrite(of_decoder, bias);
  one.overwrite(of_decoder, bias);
  one.remove(of_decoder);
  CHECK(one.same_weights(both));
  // transformers 5 has two tensors there and computes with the decoder's.
  other.remove(bias);
  CHECK(other.same_weights(Copy("bert_untied")));
  one.remove(bias);
  contains(one.error(), "needs tensor 'cls.predictions.decoder.bias'");
}

TEST_CASE("A folder with weights in two places, or with an adapter, is refused rather than one of them chosen") {
  const Copy copy("llama");
  fs::copy(copy.path / "model-00001-of-00003.safetensors", copy.path / "model.safetensors");
  contains(copy.error(), "holds model.safetensors and model.safetensors.index.json, which names other files");
  const Copy adapted("llama_tied");
  std::ofstream(adapted.path / "adapter_config.json") << "{}";
  contains(adapted.error(), "has adapter_config.json");
}

TEST_CASE("Names of tensors cannot reach the terminal's controls or another folder") {
  const char *shown = "a\\x1b]0;x\\x07b", *other = "../../etc/passwd";
  const std::string name =
      "a\x1b]0;x\x07"
      "b";
  for (const std::string& each : {name, std::string(other)}) {
    const std::string printed = each == other ? each : shown;
    const Copy more("gpt2");
    more.add_copy("transformer.ln_f.bias", each);
    contains(more.error(), "it has no '" + printed + "'");
    const Copy type("gpt2");
    type.add_copy("transformer.ln_f.bias", each);
    type.change_header("model.safetensors", [&](Json& json) { json[each]["dtype"] = "I32"; });
    contains(type.error(), "tensor '" + printed + "' has dtype I32");
    const Copy shape("gpt2");
    shape.change_header("model.safetensors", [&](Json& json) { json[each] = 5; });
    contains(shape.error(), "tensor '" + printed + "' must have exactly");
    const Copy gap("gpt2");
    gap.change_header("model.safetensors", [&](Json& json) {
      json[each] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {1 << 20, (1 << 20) + 4}}};
    });
    contains(gap.error(), "tensor '" + printed + "' starts at byte");
    const Copy index("llama");
    index.change_json(index_name, [&](Json& json) { json["weight_map"][each] = "model-00001-of-00003.safetensors"; });
    contains(index.error(), "none of the files holds tensor '" + printed + "'");
    index.change_json(index_name, [&](Json& json) { json["weight_map"][each] = "none.safetensors"; });
    contains(index.error(), "tensor '" + printed + "' lies in 'none.safetensors'");
  }
}

TEST_CASE("A type that is no weight's is refused with the legal ones before anything is read") {
  const Copy copy("llama_tied");
  copy.change_header("model.safetensors", [](Json& json) { json[query]["dtype"] = "I32"; });
  contains(copy.error(), fmt::format("tensor '{}' has dtype I32; legal are F32, BF16, F16 and F64", query));
}

TEST_CASE("An index that leads out of its folder, or to tensors that no file holds, is refused") {
  const Copy copy("llama");
  for (const char* name : {"../x.safetensors", "/etc/passwd", ".", "a/b", ""}) {
    copy.change_json(index_name, [&](Json& json) { json["weight_map"].begin().value() = name; });
    contains(copy.error(), "no plain file name");
  }
  const Copy more("llama");
  more.change_json(index_name, [](Json& json) { json["weight_map"]["extra"] = "model-00001-of-00003.safetensors"; });
  contains(more.error(), "none of the files holds tensor 'extra'");
}

TEST_CASE("An import that fails on its way leaves nothing behind") {
  const Copy copy("llama_tied");
  const Reader reader = open_hugging_face(copy.path);
  fs::resize_file(copy.path / "model.safetensors", 10000);  // after its header was checked
  const fs::path run = copy.folder.path / "new/run";
  std::string error;
  try {
    import_hugging_face(reader, reader.manifest().model, run / "checkpoints");
  } catch (const core::DataError& failure) {
    error = failure.what();
  }
  contains(error, "model.safetensors");
  CHECK(!fs::exists(run.parent_path()));
}

}  // namespace zrt::hugging_face_errors_test
