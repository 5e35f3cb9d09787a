#include "runtime/data/tokenizer_json/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/data/tokenizer_json/byte_level.h"
#include "runtime/data/tokenizer_json/cuts.h"
#include "runtime/data/tokenizer_json/pattern.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void cut(Piece piece, PieceSink next) const override {
    Cutter cutter(piece, behavior_, next);
    pattern_.parts(piece.text,
                   [&](size_t begin, size_t end, bool matched) { cutter.part(begin, end, matched != invert_); });
    cutter.finish();
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// GPT-2's cuts, and bytes written as characters.
class ByteLevelCut : public PreTokenizer {
 public:
  ByteLevelCut(Fields& fields, bool raw_bytes)
      : prefix_space_(fields.flag("add_prefix_space", true)), raw_bytes_(raw_bytes) {
    fields.pass_over({"trim_offsets"});
    if (fields.flag("use_regex", true))
      regex_ = std::make_unique<Regex>(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                                       fields.source(), fields.place("use_regex"));
  }

  void cut(Piece piece, PieceSink next) const override {
    std::string prefixed;
    if (prefix_space_ && !piece.text.starts_with(' ')) {
      prefixed.append(1, ' ').append(piece.text);
      piece.text = prefixed;
    }
    if (!regex_) return pass(piece, next);
    size_t done = 0;
    for (Regex::Matches matches(*regex_, piece.text); matches.next();) {
      pass({piece.text.substr(done, matches.begin - done), piece.first && done == 0}, next);
      pass({piece.text.substr(matches.begin, matches.end - matches.begin), piece.first && matches.begin == 0}, next);
      done = matches.end;
    }
    pass({piece.text.substr(done), piece.first && done == 0}, next);
  }

 private:
  void pass(Piece piece, PieceSink next) const {
    if (raw_bytes_) return next(piece);
    std::string characters;
    append_byte_characters(characters, piece.text);
    next({characters, piece.first});
  }
  bool prefix_space_, raw_bytes_;
  std::unique_ptr<Regex> regex_;
};

// SentencePiece's words: each space is a sign, with which the next word begins.
class MetaspaceCut : public PreTokenizer {
 public:
  explicit MetaspaceCut(Fields& fields)
      : sign_(fields.character("replacement")),
        scheme_(fields.text("prepend_scheme", "always")),
        split_(fields.flag("split", true)) {
    fields.pass_over({"str_rep"});
    if (scheme_ != "always" && scheme_ != "first" && scheme_ != "never")
      fields.refuse("prepend_scheme", "legal are always, first and never");
    if (!fields.flag("add_prefix_space", true) && scheme_ != "never")
      fields.refuse("add_prefix_space",
                    "it contradicts prepend_scheme, which is '" + scheme_ + "'; set that to never, or remove this key");
  }

  void cut(Piece piece, PieceSink next) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2);
    for (const char c : piece.text) {
      if (c == ' ')
        text += sign_;
      else
        text += c;
    }
    if (!text.starts_with(sign_) && (scheme_ == "always" || (scheme_ == "first" && piece.first))) text.insert(0, sign_);
    const std::string_view all = text;
    if (!split_) return next({all, piece.first});
    size_t begin = 0;
    for (size_t at = all.find(sign_); at != std::string_view::npos; at = all.find(sign_, at + sign_.size())) {
      next({all.substr(begin, at - begin), piece.first && begin == 0});
      begin = at;
    }
    next({all.substr(begin), piece.first && begin == 0});
  }

 private:
  std::string sign_, scheme_;
  bool split_;
};

class SequenceCut : public PreTokenizer {
 public:
  explicit SequenceCut(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void cut(Piece piece, PieceSink next) const override { cut_from(0, piece, next); }

 private:
  void cut_from(size_t part, Piece piece, PieceSink next) const {
    if (part == parts_.size()) return next(piece);
    const auto rest = [this, part, next](Piece cut) { cut_from(part + 1, cut, next); };
    parts_[part]->cut(piece, rest);
  }
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

std::unique_ptr<PreTokenizer> read_cut_sequence(Fields& fields, bool& raw_bytes) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  std::vector<Fields> list = fields.list("pretokenizers");
  bool last_is_raw = false;
  for (size_t i = 0; i < list.size(); ++i) {
    bool raw = raw_bytes && i + 1 == list.size();
    parts.push_back(read_pre_tokenizer(std::move(list[i]), raw));
    last_is_raw = raw;
  }
  raw_bytes = last_is_raw;
  return std::make_unique<SequenceCut>(std::move(parts));
}

std::unique_ptr<PreTokenizer> read_split(Fields& fields) {
  Pattern pattern(fields, "pattern");
  const Behavior behavior = read_behavior(fields, nullptr);
  return std::make_unique<Split>(std::move(pattern), behavior, fields.flag("invert", false));
}

}  // namespace

Behavior read_behavior(Fields& fields, const char* otherwise) {
  const std::string name = otherwise != nullptr ? fields.text("behavior", otherwise) : fields.text("behavior");
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  fields.refuse("behavior", "legal are Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(Fields fields, bool& raw_bytes) {
  const std::string type = fields.text("type");
  std::unique_ptr<PreTokenizer> made;
  if (type == "Sequence") {
    made = read_cut_sequence(fields, raw_bytes);
  } else {
    raw_bytes = raw_bytes && type == "ByteLevel";
    if (type == "ByteLevel") made = std::make_unique<ByteLevelCut>(fields, raw_bytes);
    if (type == "Metaspace") made = std::make_unique<MetaspaceCut>(fields);
    if (type == "Split") made = read_split(fields);
    if (!made) made = read_character_cut(type, fields);
  }
  if (!made)
    fields.refuse("type",
                  "zrt knows the pre-tokenizers ByteLevel, Split, Metaspace, Digits, Whitespace, WhitespaceSplit, "
                  "BertPreTokenizer, Punctuation, CharDelimiterSplit, UnicodeScripts and Sequence");
  fields.finish();
  return made;
}

}  // namespace zrt::runtime::data::tokenizer_json
