// Byte pair encoding (Sennrich et al. 2016): a word's characters, of which the pair with the lowest rank becomes one
// token again and again.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/tokenizer_json/byte_level.h"
#include "runtime/data/tokenizer_json/merges.h"
#include "runtime/data/tokenizer_json/model.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr std::string_view space_sign = "\xE2\x96\x81";  // U+2581

struct Rules {
  std::string unknown, prefix, suffix;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Model {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, Rules rules, bool raw_bytes)
      : Model(std::move(vocabulary)), merges_(std::move(merges)), rules_(std::move(rules)), raw_bytes_(raw_bytes) {
    unknown_ = rules_.unknown.empty() ? -1 : vocabulary_.find(rules_.unknown);
    byte_pieces_ = vocabulary_.byte_pieces();
    for (size_t byte = 0; byte < 256; ++byte) {
      std::string character;
      append(character, byte_character(static_cast<uint8_t>(byte)));
      raw_ids_[byte] = vocabulary_.find(character);
    }
    if (raw_bytes_ && rules_.ignore_merges) find_whole_words();
    cuts_ = !raw_bytes_ && !rules_.ignore_merges && rules_.prefix.empty() && rules_.suffix.empty() &&
            vocabulary_.find(space_sign) >= 0 && !spans_words();
  }

  // Words are told apart here if no token goes on behind one, so that the cache helps a text without pieces.
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const override {
    if (!cuts_) return encode_word(piece, scratch, out);
    size_t begin = 0;
    for (size_t at = piece.find(space_sign); at != std::string_view::npos; at = piece.find(space_sign, at + 3)) {
      if (at == begin || (at >= 3 && piece.substr(at - 3, 3) == space_sign)) continue;
      encode_word(piece.substr(begin, at - begin), scratch, out);
      begin = at;
    }
    encode_word(piece.substr(begin), scratch, out);
  }

  int32_t byte_id(uint8_t byte) const override {
    if (raw_bytes_) return raw_ids_[byte];
    return rules_.byte_fallback ? byte_pieces_[byte] : -1;
  }
  std::string_view continuing_prefix() const override { return rules_.prefix; }

 protected:
  void find_ids(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const override {
    if (rules_.ignore_merges) {
      const int32_t whole = raw_bytes_ ? whole_words_.find(word) : vocabulary_.find(word);
      if (whole >= 0) return out.push_back(whole);
    }
    const size_t begin = out.size();
    if (raw_bytes_) {
      for (const char c : word)
        if (const int32_t id = raw_ids_[static_cast<unsigned char>(c)]; id >= 0) out.push_back(id);
    } else {
      find_symbols(word, out);
    }
    merges_.apply(out, begin, scratch);
  }

 private:
  void find_whole_words() {
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      std::string bytes;
      if (append_bytes(bytes, vocabulary_.text(id)) && !bytes.empty()) whole_words_.add(bytes, id);
    }
  }

  // True if some token has a space sign behind another character.
  bool spans_words() const {
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string& text = vocabulary_.text(id);
      for (size_t at = text.find(space_sign, 1); at != std::string::npos; at = text.find(space_sign, at + 1))
        if (at < 3 || text.compare(at - 3, 3, space_sign) != 0) return true;
    }
    return false;
  }

  void find_symbols(std::string_view word, std::vector<int32_t>& out) const {
    bool pending = false;  // an unknown token that the next one may join
    std::string marked;
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = character_at(word, at).bytes;
      std::string_view symbol = word.substr(at, bytes);
      const bool first = at == 0, last = at + bytes == word.size();
      at += bytes;
      if ((!first && !rules_.prefix.empty()) || (last && !rules_.suffix.empty())) {
        marked = first ? "" : rules_.prefix;
        marked.append(symbol);
        if (last) marked.append(rules_.suffix);
        symbol = marked;
      }
      if (const int32_t id = vocabulary_.find(symbol); id >= 0) {
        if (pending) out.push_back(unknown_);
        pending = false;
        out.push_back(id);
      } else if (rules_.byte_fallback && has_bytes(symbol)) {
        for (const char c : symbol) out.push_back(byte_pieces_[static_cast<unsigned char>(c)]);
      } else if (unknown_ >= 0) {
        if (pending && !rules_.fuse_unknown) out.push_back(unknown_);
        pending = true;
      }
    }
    if (pending) out.push_back(unknown_);
  }

  bool has_bytes(std::string_view symbol) const {
    for (const char c : symbol)
      if (byte_pieces_[static_cast<unsigned char>(c)] < 0) return false;
    return true;
  }

  Merges merges_;
  Rules rules_;
  bool raw_bytes_ = false, cuts_ = false;
  int32_t unknown_ = -1;
  std::vector<int32_t> byte_pieces_;
  std::array<int32_t, 256> raw_ids_{};
  Vocabulary whole_words_;  // by their bytes
};

}  // namespace

std::unique_ptr<Model> read_bpe(Fields& fields, bool raw_bytes) {
  Vocabulary vocabulary = Vocabulary::of_object(fields);
  Rules rules;
  rules.unknown = fields.text("unk_token", "");
  rules.prefix = fields.text("continuing_subword_prefix", "");
  rules.suffix = fields.text("end_of_word_suffix", "");
  rules.fuse_unknown = fields.flag("fuse_unk", false);
  rules.byte_fallback = fields.flag("byte_fallback", false);
  rules.ignore_merges = fields.flag("ignore_merges", false);
  if (const Json* dropout = fields.find("dropout");
      dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0))
    fields.refuse("dropout", "zrt leaves out no merges by chance; set it to null");
  if (!rules.unknown.empty() && vocabulary.find(rules.unknown) < 0)
    fields.refuse("unk_token", "it must be in the vocabulary");
  Merges merges(fields, vocabulary, rules.prefix);
  fields.finish();
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(rules), raw_bytes);
}

}  // namespace zrt::runtime::data::tokenizer_json
