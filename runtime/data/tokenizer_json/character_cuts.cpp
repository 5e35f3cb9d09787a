// Pre-tokenizers that look at one character at a time.
#include "runtime/data/tokenizer_json/cuts.h"
#include "runtime/data/tokenizer_json/pre_tokenizer.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

// Cuts at each character of a class.
template <class Matches>
void cut_at(Piece piece, Behavior behavior, PieceSink next, const Matches& matches) {
  Cutter cutter(piece, behavior, next);
  size_t done = 0;
  for (size_t at = 0; at < piece.text.size();) {
    const Character character = character_at(piece.text, at);
    const size_t end = at + character.bytes;
    if (matches(character.code)) {
      if (at > done) cutter.part(done, at, false);
      cutter.part(at, end, true);
      done = end;
    }
    at = end;
  }
  if (done < piece.text.size()) cutter.part(done, piece.text.size(), false);
  cutter.finish();
}

class Digits : public PreTokenizer {
 public:
  explicit Digits(bool each) : behavior_(each ? Behavior::isolated : Behavior::contiguous) {}
  void cut(Piece piece, PieceSink next) const override { cut_at(piece, behavior_, next, is_number); }

 private:
  Behavior behavior_;
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void cut(Piece piece, PieceSink next) const override { cut_at(piece, Behavior::removed, next, is_space); }
};

class Punctuation : public PreTokenizer {
 public:
  explicit Punctuation(Behavior behavior) : behavior_(behavior) {}
  void cut(Piece piece, PieceSink next) const override { cut_at(piece, behavior_, next, is_punctuation); }

 private:
  Behavior behavior_;
};

class BertCut : public PreTokenizer {
 public:
  void cut(Piece piece, PieceSink next) const override {
    cut_at(
        piece, Behavior::removed, [&](Piece word) { cut_at(word, Behavior::isolated, next, is_punctuation); },
        is_space);
  }
};

class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(char32_t delimiter) : delimiter_(delimiter) {}
  void cut(Piece piece, PieceSink next) const override {
    cut_at(piece, Behavior::removed, next, [this](char32_t code) { return code == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

// Runs of one kind each: of word characters, or of others; white space is removed.
class Whitespace : public PreTokenizer {
 public:
  void cut(Piece piece, PieceSink next) const override {
    enum class Kind : uint8_t { word, other, space };
    size_t begin = 0;
    Kind kind = Kind::space;
    const auto emit = [&](size_t end) {
      if (kind != Kind::space) next({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    for (size_t at = 0; at < piece.text.size();) {
      const Character character = character_at(piece.text, at);
      const Kind now = is_word(character.code) ? Kind::word : is_space(character.code) ? Kind::space : Kind::other;
      if (now != kind) {
        emit(at);
        begin = at;
        kind = now;
      }
      at += character.bytes;
    }
    emit(piece.text.size());
  }
};

// Runs of one script; characters of none, and spaces, go with those before them. The library drops those that nothing
// stands before.
class UnicodeScripts : public PreTokenizer {
 public:
  void cut(Piece piece, PieceSink next) const override {
    size_t begin = 0;
    int script = -1;
    for (size_t at = 0; at < piece.text.size();) {
      const Character character = character_at(piece.text, at);
      int any = 0;
      const int now = script_of(character.code, &any);
      if (now != any) {
        if (now != script) {
          if (script >= 0) next({piece.text.substr(begin, at - begin), piece.first && begin == 0});
          begin = at;
        }
        script = now;
      }
      at += character.bytes;
    }
    if (script >= 0) next({piece.text.substr(begin), piece.first && begin == 0});
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> read_character_cut(const std::string& type, Fields& fields) {
  if (type == "Digits") return std::make_unique<Digits>(fields.flag("individual_digits", false));
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplit>();
  if (type == "BertPreTokenizer") return std::make_unique<BertCut>();
  if (type == "Punctuation") return std::make_unique<Punctuation>(read_behavior(fields, "Isolated"));
  if (type == "UnicodeScripts") return std::make_unique<UnicodeScripts>();
  if (type != "CharDelimiterSplit") return nullptr;
  const std::string delimiter = fields.character("delimiter");
  return std::make_unique<CharDelimiterSplit>(character_at(delimiter, 0).code);
}

}  // namespace zrt::runtime::data::tokenizer_json
