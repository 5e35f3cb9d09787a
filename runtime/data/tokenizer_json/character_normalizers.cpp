// Normalizers that look at one character at a time.
#include <string_view>

#include "runtime/data/tokenizer_json/normalizer.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

// Replaces each character by what `write(out, code)` appends.
template <class Write>
void rewrite(std::string& text, const Write& write) {
  std::string out;
  out.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    const Character next = character_at(text, at);
    write(out, next.code);
    at += next.bytes;
  }
  text = std::move(out);
}

class Lowercase : public Normalizer {
 public:
  void apply(std::string& text) const override { lowercase(text); }
};

class StripAccents : public Normalizer {
 public:
  void apply(std::string& text) const override {
    if (is_ascii(text)) return;
    rewrite(text, [](std::string& out, char32_t code) {
      if (!is_mark(code)) append(out, code);
    });
  }
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override {
    size_t begin = 0, end = text.size();
    while (left_ && begin < end && is_space(character_at(text, begin).code)) begin += character_at(text, begin).bytes;
    while (right_ && end > begin) {
      const size_t last = character_before(text, end);
      if (!is_space(character_at(text, last).code)) break;
      end = last;
    }
    text = text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

// Rules of neural machine translation: no control characters, and every blank is a space.
class Nmt : public Normalizer {
 public:
  void apply(std::string& text) const override {
    rewrite(text, [](std::string& out, char32_t code) {
      const auto in = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
      if (in(1, 8) || code == 0xB || in(0xE, 0x1F) || code == 0x7F || code == 0x8F || code == 0x9F) return;
      const bool blank = in(9, 10) || in(0xC, 0xD) || code == 0x1680 || in(0x200B, 0x200F) || in(0x2028, 0x2029) ||
                         code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
      append(out, blank ? U' ' : code);
    });
  }
};

class BertNormalizer : public Normalizer {
 public:
  struct Rules {
    bool clean, chinese, strip_accents, lowercase;
  };
  explicit BertNormalizer(Rules rules) : rules_(rules) {}
  void apply(std::string& text) const override {
    if (rules_.clean || rules_.chinese) rewrite(text, [this](std::string& out, char32_t code) { write(out, code); });
    if (rules_.strip_accents && !is_ascii(text)) {
      normalize(NormalForm::nfd, text);
      rewrite(text, [](std::string& out, char32_t code) {
        if (!is_nonspacing_mark(code)) append(out, code);
      });
    }
    if (rules_.lowercase) lowercase(text);
  }

 private:
  void write(std::string& out, char32_t code) const {
    if (rules_.clean) {
      const bool blank = is_space(code) && (code > 32 || code == '\t' || code == '\n' || code == '\r' || code == ' ');
      if (blank && code != 0x85) {
        out += ' ';
        return;
      }
      if (code == 0xFFFD || is_control(code)) return;
    }
    const bool apart = rules_.chinese && is_chinese(code);
    if (apart) out += ' ';
    append(out, code);
    if (apart) out += ' ';
  }
  Rules rules_;
};

}  // namespace

std::unique_ptr<Normalizer> read_character_normalizer(const std::string& type, Fields& fields) {
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Strip") {
    const bool left = fields.flag("strip_left", true);
    return std::make_unique<StripNormalizer>(left, fields.flag("strip_right", true));
  }
  if (type != "BertNormalizer") return nullptr;
  BertNormalizer::Rules rules{};
  rules.clean = fields.flag("clean_text", true);
  rules.chinese = fields.flag("handle_chinese_chars", true);
  rules.lowercase = fields.flag("lowercase", true);
  rules.strip_accents = fields.flag("strip_accents", rules.lowercase);
  return std::make_unique<BertNormalizer>(rules);
}

}  // namespace zrt::runtime::data::tokenizer_json
