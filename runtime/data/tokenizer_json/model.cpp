#include "runtime/data/tokenizer_json/model.h"

#include <nlohmann/json.hpp>

namespace zrt::runtime::data::tokenizer_json {

void Model::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (word.size() > WordCache::longest_word) return find_ids(word, scratch, out);
  const uint64_t hash = WordCache::hash_of(word);
  WordCache::Entry& entry = scratch.cache.entry(hash);
  if (entry.is(hash, word)) {
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  const size_t begin = out.size();
  find_ids(word, scratch, out);
  WordCache::keep(entry, hash, word, std::span(out).subspan(begin));
}

namespace {

// Files that were written before models had a type name are told apart by their keys.
std::string type_of(Fields& fields) {
  const Json* type = fields.find("type");
  if (type != nullptr) return fields.text("type");
  if (fields.find("merges") != nullptr) return "BPE";
  const Json* vocabulary = fields.find("vocab");
  if (vocabulary != nullptr && vocabulary->is_array()) return "Unigram";
  return fields.find("continuing_subword_prefix") != nullptr ? "WordPiece" : "WordLevel";
}

}  // namespace

bool takes_raw_bytes(Fields fields) {
  return type_of(fields) == "BPE" && fields.find("unk_token") == nullptr && !fields.flag("byte_fallback", false) &&
         fields.text("continuing_subword_prefix", "").empty() && fields.text("end_of_word_suffix", "").empty();
}

std::unique_ptr<Model> read_model(Fields fields, bool raw_bytes) {
  const std::string type = type_of(fields);
  std::unique_ptr<Model> model;
  if (type == "BPE") model = read_bpe(fields, raw_bytes);
  if (type == "Unigram") model = read_unigram(fields);
  if (type == "WordPiece") model = read_word_piece(fields);
  if (type == "WordLevel") model = read_word_level(fields);
  if (!model) fields.refuse("type", "zrt knows the models BPE, Unigram, WordPiece and WordLevel");
  return model;
}

}  // namespace zrt::runtime::data::tokenizer_json
