#include "runtime/data/tokenizer_json/end_of_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr size_t largest_config = size_t{16} << 20;
constexpr std::array<const char*, 8> known_ends{"<|endoftext|>", "<|end_of_text|>", "</s>",  "<eos>",
                                                "<|eos|>",       "<EOS>",           "[EOS]", "[SEP]"};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

int32_t id_of(const std::string& text, const AddedTokens& added, const Vocabulary& vocabulary) {
  int32_t most = vocabulary.size() - 1;
  for (const AddedToken& token : added.all()) {
    if (token.content == text) return token.id;
    most = std::max(most, token.id);
  }
  if (!is_number(text)) return vocabulary.find(text);
  if (text.size() > 9 || std::stoi(text) > most) return -1;
  const int32_t id = std::stoi(text);
  if (added.with_id(id) != nullptr) return id;
  if (id >= vocabulary.size()) return -1;
  // A description keeps the token's text, which would then be read as another id.
  const std::string& token = vocabulary.text(id);
  return token.empty() || is_number(token) ? -1 : id;
}

}  // namespace

std::optional<std::string> configured_end(const std::string& file) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path path = std::filesystem::path(file).parent_path() / name;
    std::error_code failed;
    if (!std::filesystem::is_regular_file(path, failed)) continue;
    const Json object = Json::parse(core::read_text(path, largest_config), nullptr, false);
    if (!object.is_object())
      throw core::DataError(
          fmt::format("{}: the file is not a JSON object. Copy it again, or remove it and name the "
                      "end of documents with --eod.",
                      path.string()));
    const auto found = object.find("eos_token");
    if (found == object.end()) continue;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
      return (*found)["content"].get<std::string>();
  }
  return std::nullopt;
}

int32_t end_of_document(const std::string& named, const std::optional<std::string>& configured,
                        const AddedTokens& added, const Vocabulary& vocabulary, const std::string& source) {
  if (const std::string wanted = named.empty() ? configured.value_or("") : named; !wanted.empty()) {
    const int32_t id = id_of(wanted, added, vocabulary);
    if (id >= 0) return id;
    throw core::ConfigError(core::printable(fmt::format(
        "{}: the end of documents is to be '{}' ({}), which is no token of it{}. Name one of its tokens with --eod, or "
        "its id.",
        source, wanted, named.empty() ? "eos_token of the configuration beside it" : "--eod",
        is_number(wanted) ? ", nor the id of one that is no number" : "")));
  }
  for (const char* name : known_ends) {
    for (const AddedToken& token : added.all())
      if (token.content == name) return token.id;
  }
  std::string special;
  int count = 0;
  for (const AddedToken& token : added.all()) {
    if (!token.special || ++count > 12) continue;
    special += fmt::format("{}'{}'", special.empty() ? "" : ", ", token.content);
  }
  throw core::ConfigError(core::printable(fmt::format(
      "{}: no token is known to end documents: none is called {}, and there is no tokenizer_config.json with an "
      "eos_token beside it. Name one with --eod; its special tokens are {}.",
      source, fmt::join(known_ends, ", "), special.empty() ? "none" : special)));
}

}  // namespace zrt::runtime::data::tokenizer_json
