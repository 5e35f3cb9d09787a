// A tokenizer.json, from anywhere. ICU and PCRE2 are not instrumented; what they do to memory is still seen.
#include "runtime/data/tokenizer_json/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

using Json = nlohmann::json;
using runtime::data::tokenizer_json::JsonTokenizer;

bool accepts(std::string_view input) {
  try {
    const JsonTokenizer tokenizer(std::string(input), "fuzz", {.named = "", .configured = "<end>"});
    using namespace std::string_literals;  // a zero byte does not end them
    const std::string text = "The kernel  reads \xC3\xA9t\xC3\xA9 e\xCC\x81 \xE6\x97\xA5 12\r\n\xFF\x00<end> end."s;
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    for (const int32_t id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size(), "ids lie in the vocabulary");
      tokenizer.word_part(id);
    }
    require(tokenizer.eod() < tokenizer.vocab_size(), "the end of documents lies in the vocabulary");
    std::vector<int32_t> again;
    tokenizer.encode(text, again);
    require(ids == again, "a text has the same ids again");
    tokenizer.decode(ids);
    return true;
  } catch (const core::DataError&) {
    return false;
  } catch (const core::ConfigError&) {
    return false;
  }
}

// Every value below `json`, with what holds it.
void collect(Json& json, std::vector<Json*>& values) {
  for (auto& [key, value] : json.items()) {
    values.push_back(&value);
    if (value.is_structured()) collect(value, values);
  }
}

// Changes, swaps or copies values.
std::string mutate(std::string_view input, uint32_t random, const Change& change) {
  Json json = Json::parse(input, nullptr, false);
  std::vector<Json*> values;
  if (json.is_structured()) collect(json, values);
  if (values.empty()) return "";
  Json& value = *values[random % values.size()];
  const uint32_t next = random * 2654435761u >> 7;
  const Json other = *values[next / 8 % values.size()];
  switch (next % 4) {
    case 0:
      value = other;
      break;
    case 1:
      if (value.is_string()) value = change(value.get<std::string>());
      if (value.is_number_integer()) value = value.get<int64_t>() + static_cast<int>(next % 5) - 2;
      if (value.is_boolean()) value = !value.get<bool>();
      break;
    case 2:
      if (value.is_array()) value.push_back(other);
      if (value.is_object()) value["type"] = other;
      break;
    default:
      if (value.is_string()) value = value.get<std::string>() + "a";
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json file_of(const char* model, const char* rest) {
  Json file = Json::parse(rest);
  file["model"] = Json::parse(model);
  file["added_tokens"] = Json::parse(R"([{"id": 9, "content": "<end>", "special": true, "lstrip": true},
    {"id": 10, "content": "read", "single_word": true, "normalized": true}])");
  return file;
}

std::map<std::string, std::string> seeds() {
  return {
      {"bytes", file_of(R"({"type": "BPE", "vocab": {"e": 0, "n": 1, "d": 2, "en": 3, "end": 4, "Ġ": 5},
                "merges": ["e n", "en d"], "ignore_merges": true})",
                        R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+(?!\\S)|\\s"}, "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}, "decoder": {"type": "ByteLevel"}})")
                    .dump()},
      {"fallback", file_of(R"({"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                "vocab": {"<unk>": 0, "▁": 1, "e": 2, "n": 3, "en": 4, "▁en": 5, "<0xC3>": 6}, "merges": [["e", "n"], ["▁", "en"]]})",
                           R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
                "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})")
                       .dump()},
      {"unigram",
       file_of(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["e", -3], ["en", -3.5]]})",
               R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
                "prepend_scheme": "first", "split": true}, "decoder": {"type": "Metaspace", "replacement": "▁"},
                "post_processor": {"type": "BertProcessing", "cls": ["<end>", 9], "sep": ["<end>", 9]}})")
           .dump()},
      {"words",
       file_of(R"({"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "the": 1, "k": 2, "##e": 3}})",
               R"({"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
                "decoder": {"type": "WordPiece"}})")
           .dump()},
  };
}

}  // namespace

const Target tokenizer_json{
    "tokenizer_json",
    accepts,
    seeds,
    {"\"type\"", "\"Sequence\"", "\"Regex\"", "\"String\"", "\"Precompiled\"", "\"Digits\"", "\"Punctuation\"",
     "\"UnicodeScripts\"", "\"Contiguous\"", "\"MergedWithNext\"", "null", "(?i:", "\\\\p{N}{1,3}+", "[^", "&&"},
    mutate};

}  // namespace zrt::fuzz
