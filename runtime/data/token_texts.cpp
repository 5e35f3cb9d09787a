#include "runtime/data/token_texts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/sentencepiece_fields.h"

namespace zrt::runtime::data {
namespace {

using Texts = std::map<int64_t, std::string>;

// {"text": id}, [["text", score]] or ["text"].
void add_vocabulary(const nlohmann::json& vocabulary, Texts& texts) {
  int64_t next = 0;
  for (const auto& [key, value] : vocabulary.items()) {
    const nlohmann::json& entry = value.is_array() && !value.empty() ? value[0] : value;
    if (vocabulary.is_object() && value.is_number_integer()) texts[value.get<int64_t>()] = key;
    if (vocabulary.is_array() && entry.is_string()) texts[next++] = entry.get<std::string>();
  }
}

void read_json(const std::string& contents, bool whole, Texts& texts) {
  const nlohmann::json file = nlohmann::json::parse(contents, nullptr, false);
  if (!file.is_object()) return;
  if (!whole) return add_vocabulary(file, texts);
  const nlohmann::json model = file.value("model", nlohmann::json());
  if (!model.is_object()) return;
  add_vocabulary(model.value("vocab", nlohmann::json::object()), texts);
  for (const nlohmann::json& token : file.value("added_tokens", nlohmann::json::array())) {
    if (!token.is_object() || !token.contains("id") || !token["id"].is_number_integer()) continue;
    if (token.contains("content") && token["content"].is_string()) {
      texts[token["id"].get<int64_t>()] = token["content"].get<std::string>();
    }
  }
}

// Any text has lines; a vocabulary has the token that stands for unknown words.
void add_lines(const std::string& contents, Texts& texts) {
  std::istringstream in(contents);
  int64_t id = 0;
  bool known = false;
  for (std::string line; std::getline(in, line); ++id) known = known || line == "[UNK]", texts[id] = line;
  if (!known) texts.clear();
}

void add_pieces(const std::string& name, const std::string& contents, Texts& texts) {
  try {
    int64_t id = 0;
    for (const std::string& piece : read_model_pieces(contents, name)) texts[id++] = piece;
  } catch (const core::DataError&) {
    texts.clear();
  }
}

}  // namespace

TokenTexts byte_texts() {
  TokenTexts bytes{"bytes", {}};
  for (int byte = 0; byte < 256; ++byte) bytes.texts[byte] = std::string(1, static_cast<char>(byte));
  return bytes;
}

std::optional<TokenTexts> read_token_texts(const std::string& name, const std::string& contents) {
  TokenTexts found{name, {}};
  if (name == "tokenizer.json" || name == "vocab.json") {
    read_json(contents, name == "tokenizer.json", found.texts);
  } else if (name == "vocab.txt") {
    add_lines(contents, found.texts);
  } else if (name.ends_with(".model")) {
    add_pieces(name, contents, found.texts);
  }
  if (found.texts.empty()) return std::nullopt;
  return found;
}

std::string different_token(const TokenTexts& a, const TokenTexts& b) {
  for (const auto& [id, text] : a.texts) {
    const auto other = b.texts.find(id);
    if (other == b.texts.end() || other->second == text) continue;
    return core::printable(fmt::format("{} of {} tokens has '{}' as {}, {} of {} has '{}'", a.kind, a.texts.size(),
                                       text, id, b.kind, b.texts.size(), other->second));
  }
  return "";
}

}  // namespace zrt::runtime::data
