#include "runtime/data/tokenizer_json/decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/data/tokenizer_json/byte_level.h"
#include "runtime/data/tokenizer_json/pattern.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string replaced;
  size_t begin = 0;
  for (size_t at; (at = text.find(from, begin)) != std::string::npos; begin = at + from.size()) {
    replaced.append(text, begin, at - begin).append(to);
  }
  if (begin == 0) return;
  replaced.append(text, begin, std::string::npos);
  text.swap(replaced);
}

class ByteLevelDecoder : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string bytes;
      if (well_formed_bytes(token) == token.size() && append_bytes(bytes, token)) token = std::move(bytes);
    }
  }
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(Fields& fields) : sign_(fields.character("replacement")) {
    const std::string scheme = fields.text("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      fields.refuse("prepend_scheme", "legal are always, first and never");
    prepends_ = scheme != "never";
    fields.pass_over({"add_prefix_space", "split", "str_rep"});
  }
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], sign_, i == 0 && prepends_ ? "" : " ");
  }

 private:
  std::string sign_;
  bool prepends_ = true;
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(Tokens& tokens) const override {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> tidy{{{" .", "."},
                                                                                         {" ?", "?"},
                                                                                         {" !", "!"},
                                                                                         {" ,", ","},
                                                                                         {" ' ", "'"},
                                                                                         {" n't", "n't"},
                                                                                         {" 'm", "'m"},
                                                                                         {" do not", " don't"},
                                                                                         {" 's", "'s"},
                                                                                         {" 've", "'ve"},
                                                                                         {" 're", "'re"}}};
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix_))
        tokens[i].erase(0, prefix_.size());
      else if (i > 0)
        tokens[i].insert(0, 1, ' ');
      if (!cleanup_) continue;
      for (const auto& [from, to] : tidy) replace_all(tokens[i], from, to);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

// "<0xAB>" is a byte. Bytes that are no UTF-8 stay as they are, so that every text comes back.
class ByteFallback : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') continue;
      uint8_t byte = 0;
      const auto [end, failed] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
      if (failed == std::errc() && end == token.data() + 5) token.assign(1, static_cast<char>(byte));
    }
  }
};

class Fuse : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.clear();
    tokens.push_back(std::move(all));
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens)
      if (well_formed_bytes(token) == token.size()) pattern_.replace(token, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string character, int64_t start, int64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(character_); ++i) token.erase(0, character_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(character_); ++i) token.erase(token.size() - character_.size());
    }
  }

 private:
  std::string character_;
  int64_t start_, stop_;
};

class EndOfWord : public Decoder {
 public:
  explicit EndOfWord(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class Spaced : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  }
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  void apply(Tokens& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::unique_ptr<Decoder> read_end_of_word(Fields& fields) {
  std::string suffix = fields.text("suffix", "</w>");
  if (suffix.empty()) fields.refuse("suffix", "it must not be empty");
  return std::make_unique<EndOfWord>(std::move(suffix));
}

std::unique_ptr<Decoder> read_replace(Fields& fields) {
  Pattern pattern(fields, "pattern");
  return std::make_unique<ReplaceDecoder>(std::move(pattern), fields.text("content"));
}

std::unique_ptr<Decoder> read_strip(Fields& fields) {
  constexpr int64_t most = int64_t{1} << 30;
  std::string character = fields.character("content");
  const int64_t start = fields.number("start", 0, most, 0);
  return std::make_unique<StripDecoder>(std::move(character), start, fields.number("stop", 0, most, 0));
}

std::unique_ptr<Decoder> read_decoder_sequence(Fields& fields) {
  std::vector<std::unique_ptr<Decoder>> parts;
  for (Fields& part : fields.list("decoders")) parts.push_back(read_decoder(std::move(part)));
  return std::make_unique<SequenceDecoder>(std::move(parts));
}

}  // namespace

std::unique_ptr<Decoder> read_decoder(Fields fields) {
  const std::string type = fields.text("type");
  std::unique_ptr<Decoder> made;
  if (type == "ByteLevel") {
    fields.pass_over({"add_prefix_space", "trim_offsets", "use_regex"});
    made = std::make_unique<ByteLevelDecoder>();
  }
  if (type == "Metaspace") made = std::make_unique<MetaspaceDecoder>(fields);
  if (type == "WordPiece") {
    std::string prefix = fields.text("prefix", "##");
    made = std::make_unique<WordPieceDecoder>(std::move(prefix), fields.flag("cleanup", true));
  }
  if (type == "ByteFallback") made = std::make_unique<ByteFallback>();
  if (type == "Fuse") made = std::make_unique<Fuse>();
  if (type == "Replace") made = read_replace(fields);
  if (type == "Strip") made = read_strip(fields);
  if (type == "BPEDecoder") made = read_end_of_word(fields);
  if (type == "Sequence") made = read_decoder_sequence(fields);
  if (!made)
    fields.refuse("type",
                  "zrt knows the decoders ByteLevel, Metaspace, WordPiece, BPEDecoder, ByteFallback, Fuse, Replace, "
                  "Strip and Sequence; CTC is of speech");
  fields.finish();
  return made;
}

std::unique_ptr<Decoder> spaced_decoder() {
  return std::make_unique<Spaced>();
}

}  // namespace zrt::runtime::data::tokenizer_json
