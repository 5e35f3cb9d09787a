// Folders of Hugging Face that lack something or hold something else: each is refused with what is wrong and where.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "catch.h"
#include "core/dtype.h"
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
  fs::copy(whole.path / "model-00001-of-00003.safetensors", tied.path / "model-00001-of-00001.safetensors");
  contains(tied.error(), "holds model-00001-of-00001.safetensors but neither model.safetensors nor");
  std::ofstream(tied.path / "model.safetensors")
      << "version https://git-lfs.github.com/spec/v1\noid sha256:4f0c\nsize 3\n";
  contains(tied.error(), "model.safetensors: is a pointer of Git LFS");
  contains(tied.error(), "`git lfs pull`");
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

TEST_CASE("A tied matrix that files hold twice is compared to its last row, however large it is") {
  // The matrix is more than what is read of a tensor at a time, 32,768 elements.
  const Copy both("llama_tied");
  constexpr size_t rows = 5000;
  both.change_json("config.json", [&](Json& json) { json["vocab_size"] = rows; });
  const char* embedding = "model.embed_tokens.weight";
  both.change_file("model.safetensors", [&](Json& json, std::string& data) {
    Json& entry = json.at(embedding);
    const auto place = entry.at("data_offsets").get<std::vector<size_t>>();
    const size_t row = (place[1] - place[0]) / entry["shape"][0].get<size_t>(),
                 more = rows * row - (place[1] - place[0]);
    data.insert(place[1], std::string(more, '\0'));
    for (auto& [name, other] : json.items()) {
      if (!other.contains("data_offsets") || other["data_offsets"][0].get<size_t>() < place[1]) continue;
      for (Json& offset : other["data_offsets"]) offset = offset.get<size_t>() + more;
    }
    entry["shape"][0] = rows, entry["data_offsets"] = {place[0], place[1] + more};
  });
  both.add_copy(embedding, "lm_head.weight");
  CHECK(both.error() == "");
  both.change_file("model.safetensors", [](Json&, std::string& data) { data[data.size() - 1] ^= 0x40; });
  contains(both.error(), "('tie_word_embeddings'), but their elements ");
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

TEST_CASE("BERT files that name the weight and bias of norms gamma and beta hold the same model") {
  for (const char* name : {"bert", "bert_untied", "bert_order", "megatron_bert"}) {
    CAPTURE(name);
    const Copy copy(name);
    int renamed = 0;
    copy.change_header("model.safetensors", [&](Json& json) {
      Json first = Json::object();
      for (const auto& [tensor, entry] : json.items()) {
        std::string old = tensor;
        const bool norm = tensor.find("LayerNorm.") != std::string::npos || tensor.find("ln.") != std::string::npos;
        if (norm && tensor.ends_with(".weight")) old.replace(old.size() - 6, 6, "gamma");
        if (norm && tensor.ends_with(".bias")) old.replace(old.size() - 4, 4, "beta");
        renamed += old != tensor;
        first[old] = entry;
      }
      json = first;
    });
    CHECK(renamed > 4);
    CHECK(copy.same_weights(Copy(name)));
  }
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

namespace {

std::string bytes_of(const char* dtype, float value) {
  const auto raw = [](auto x) { return std::string(reinterpret_cast<const char*>(&x), sizeof x); };
  const std::string_view type = dtype;
  if (type == "F64") return raw(static_cast<double>(value));
  if (type == "BF16") return raw(core::to_bf16(value).bits);
  return type == "F16" ? raw(core::to_f16(value).bits) : raw(value);
}

// Makes every tensor of the only file one of a type, all values 0.25 but for one of them.
void retype(const Copy& copy, const char* dtype, const std::string& tensor, int64_t element, const std::string& bytes) {
  copy.change_file("model.safetensors", [&](Json& json, std::string& data) {
    SafetensorsHeader header;
    for (const auto& [name, entry] : json.items()) {
      if (entry.contains("shape")) {
        header.tensors.push_back({name, dtype, entry["shape"].get<std::vector<int64_t>>(), 0, 0});
      }
    }
    json = Json::parse(lay_out(header).substr(8));
    data.clear();
    for (const TensorEntry& entry : header.tensors) {
      for (int64_t i = 0; i < entry.elements(); ++i) {
        data += entry.name == tensor && i == element ? bytes : bytes_of(dtype, 0.25f);
      }
    }
  });
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const core::DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A folder with a NaN or an infinity in any type is neither imported nor exported, and the value is named") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  struct Bad {
    const char* dtype;
    std::string bytes;
    const char* text;
  };
  std::vector<Bad> all;
  for (const char* dtype : {"F32", "BF16", "F16", "F64"}) {
    all.push_back({dtype, bytes_of(dtype, nan), "NaN"});
    all.push_back({dtype, bytes_of(dtype, infinity), "infinity"});
    all.push_back({dtype, bytes_of(dtype, -infinity), "-infinity"});
  }
  const double large = 1e300;  // no infinity before it is read as fp32
  all.push_back({"F64", std::string(reinterpret_cast<const char*>(&large), sizeof large), "infinity"});
  for (const Bad& bad : all) {
    CAPTURE(bad.dtype, bad.text);
    const Copy copy("llama_tied");
    retype(copy, bad.dtype, query, 131, bad.bytes);
    const Reader reader = open_hugging_face(copy.path);
    const fs::path run = copy.folder.path / "new/run", out = copy.folder.path / "out";
    const std::string what = fmt::format("{}: tensor '{}' of type {} is {} at element 131 of [",
                                         (copy.path / "model.safetensors").string(), query, bad.dtype, bad.text);
    contains(refusal([&] { import_hugging_face(reader, reader.manifest().model, run / "checkpoints"); }), what);
    contains(refusal([&] { export_hugging_face(reader, out, {}); }), what);
    contains(refusal([&] { reader.require_finite(); }), what);
    CHECK(!fs::exists(run.parent_path()));
    CHECK(!fs::exists(out));
    CHECK(!fs::exists(copy.folder.path / ".out.export.tmp"));
  }
}

TEST_CASE("An export of a checkpoint whose manifest does not describe its model names the folder and the key") {
  const Copy copy("llama_tied");
  const Reader reader = open_hugging_face(copy.path);
  Json model = reader.manifest().model;
  model.erase("tied");
  const fs::path made = import_hugging_face(reader, model, copy.folder.path / "store"), out = copy.folder.path / "out";
  const std::string error = refusal([&] { export_hugging_face(Reader(made, true), out, {}); });
  contains(error, made.string() + ": its manifest does not describe the model: ");
  contains(error, "'tied'");
  CHECK(!fs::exists(out));
}

TEST_CASE("An export refuses a weight that its type does not hold, and takes it in a type that does") {
  const Copy copy("llama_tied");
  const auto exported = [&](const char* name, core::DType type) {
    return refusal([&] { export_hugging_face(open_hugging_face(copy.path), copy.folder.path / name, {type}); });
  };
  retype(copy, "F32", query, 7, bytes_of("F32", 65519.9f));
  CHECK(exported("below", core::DType::f16) == "");
  retype(copy, "F32", query, 7, bytes_of("F32", -65520));
  contains(exported("fp16", core::DType::f16), "is -6.55e+04 at element 7 of [");
  contains(exported("fp16", core::DType::f16), "; fp16 has no such number. Choose a type that reaches as far as fp32");
  CHECK(exported("bf16", core::DType::bf16) == "");
  retype(copy, "F32", query, 7, bytes_of("F32", std::numeric_limits<float>::max()));
  contains(exported("largest", core::DType::bf16), "bf16 has no such number");
  CHECK(exported("fp32", core::DType::f32) == "");
}

}  // namespace zrt::hugging_face_errors_test
