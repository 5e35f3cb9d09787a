#include "runtime/data/tokenizer_json/added_tokens.h"

#include <fmt/format.h>

#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

AddedToken read_token(Fields& fields, int64_t most) {
  AddedToken token;
  token.content = fields.text("content");
  token.id = static_cast<int32_t>(fields.number("id", 0, most));
  token.special = fields.flag("special", false);
  token.single_word = fields.flag("single_word", false);
  token.lstrip = fields.flag("lstrip", false);
  token.rstrip = fields.flag("rstrip", false);
  token.normalized = fields.flag("normalized", !token.special);
  fields.finish();
  return token;
}

}  // namespace

AddedTokens::AddedTokens(Fields& fields, const Vocabulary& vocabulary, const Normalizer* normalizer) {
  if (fields.find("added_tokens") == nullptr) return;
  std::vector<Fields> list = fields.list("added_tokens");
  const int64_t most = int64_t{vocabulary.size()} * 2 + static_cast<int64_t>(list.size()) * 2 + 1024;
  std::vector<std::pair<std::string, int32_t>> plain, normalized;
  std::unordered_map<std::string, int32_t> seen;
  for (Fields& entry : list) {
    AddedToken token = read_token(entry, most);
    if (token.content.empty()) continue;
    const int32_t known = vocabulary.find(token.content);
    if (known >= 0 && known != token.id)
      entry.refuse("id", fmt::format("the model's vocabulary has '{}' as {}", token.content, known));
    if (known < 0 && token.id < vocabulary.size() && !vocabulary.text(token.id).empty())
      entry.refuse("id", fmt::format("the model's vocabulary has '{}' there", vocabulary.text(token.id)));
    if (const auto [found, fresh] = seen.emplace(token.content, token.id); !fresh)
      entry.refuse("content", fmt::format("an added token before has it, too, as {}", found->second));
    if (!by_id_.emplace(token.id, tokens_.size()).second)
      entry.refuse("id", fmt::format("the added token '{}' has it, too", tokens_[by_id_.at(token.id)].content));
    token.text = token.content;
    if (token.normalized && normalizer != nullptr) normalizer->apply(token.text);
    (token.normalized ? normalized : plain).emplace_back(token.text, static_cast<int32_t>(tokens_.size()));
    tokens_.push_back(std::move(token));
  }
  plain_ = Trie(std::move(plain));
  normalized_ = Trie(std::move(normalized));
}

const AddedToken* AddedTokens::with_id(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

AddedTokens::Match AddedTokens::find(const Trie& trie, std::string_view text, size_t at, size_t done) const {
  size_t bytes = 0;
  int32_t number = -1;
  trie.prefixes(text.substr(at), [&](size_t length, int32_t found) {
    bytes = length;
    number = found;
  });
  if (number < 0) return {nullptr, 0, 0, at + 1};
  const AddedToken& token = tokens_[static_cast<size_t>(number)];
  Match match{&token, at, at + bytes, at + bytes};
  if (token.single_word) {
    const bool touches = (at > 0 && is_word(character_at(text, character_before(text, at)).code)) ||
                         (match.end < text.size() && is_word(character_at(text, match.end).code));
    if (touches) return {nullptr, 0, 0, match.next};
  }
  while (token.lstrip && match.begin > done) {
    const size_t before = character_before(text, match.begin);
    if (!is_space(character_at(text, before).code)) break;
    match.begin = before;
  }
  while (token.rstrip && match.end < text.size() && is_space(character_at(text, match.end).code))
    match.end += character_at(text, match.end).bytes;
  return match;
}

}  // namespace zrt::runtime::data::tokenizer_json
