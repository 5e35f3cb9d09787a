#include "runtime/data/tokenizer_json/unicode.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/utf8.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

UChar32 of_icu(char32_t code) {
  return static_cast<UChar32>(code);
}

bool has_category(char32_t code, uint32_t mask) {
  return (U_GET_GC_MASK(of_icu(code)) & mask) != 0;
}

void require(UErrorCode status, const char* what) {
  if (U_FAILURE(status))
    throw core::DataError(
        fmt::format("ICU's {} are not available: {}. Install Debian's libicu72.", what, u_errorName(status)));
}

const icu::Normalizer2& rules_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::nfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::nfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::nfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  require(status, "normal forms");
  return *found;
}

bool plain(char32_t code) {
  return u_getIntPropertyValue(of_icu(code), UCHAR_GRAPHEME_CLUSTER_BREAK) == U_GCB_OTHER;
}

size_t cluster_end(std::string_view text, size_t at) {
  static thread_local const std::unique_ptr<icu::BreakIterator> clusters = [] {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<icu::BreakIterator> made(
        icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    require(status, "grapheme clusters");
    return made;
  }();
  for (size_t bytes = 64;; bytes *= 4) {
    const std::string_view window = text.substr(at, bytes);
    UErrorCode status = U_ZERO_ERROR;
    const icu::UnicodeString wide = icu::UnicodeString::fromUTF8({window.data(), static_cast<int32_t>(window.size())});
    clusters->setText(wide);
    const int32_t end = clusters->next();
    require(status, "grapheme clusters");
    std::string cluster;
    wide.tempSubString(0, end).toUTF8String(cluster);
    // A character that the window cuts ends the cluster, which may go on behind it.
    if (cluster.size() + 4 <= window.size() || at + window.size() == text.size())
      return at + std::min(cluster.size(), window.size());
  }
}

}  // namespace

void append(std::string& out, char32_t code) {
  const auto push = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6), push(0x80 | (code & 63));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12), push(0x80 | (code >> 6 & 63)), push(0x80 | (code & 63));
  } else {
    push(0xF0 | code >> 18), push(0x80 | (code >> 12 & 63)), push(0x80 | (code >> 6 & 63)), push(0x80 | (code & 63));
  }
}

size_t well_formed_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const size_t bytes = core::utf8_character(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  return u_hasBinaryProperty(of_icu(code), UCHAR_WHITE_SPACE) != 0;
}

bool is_mark(char32_t code) {
  return code >= 0x80 && has_category(code, U_GC_M_MASK);
}

bool is_nonspacing_mark(char32_t code) {
  return code >= 0x80 && has_category(code, U_GC_MN_MASK);
}

bool is_number(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return has_category(code, U_GC_N_MASK);
}

bool is_word(char32_t code) {
  if (code < 0x80)
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  return has_category(code, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(of_icu(code), UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(of_icu(code), UCHAR_JOIN_CONTROL) != 0;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  return has_category(code, U_GC_P_MASK);
}

bool is_control(char32_t code) {
  if (code < 0x80) return code < 32 || code == 127;
  return has_category(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool is_chinese(char32_t code) {
  const auto in = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  return in(0x4E00, 0x9FFF) || in(0x3400, 0x4DBF) || in(0x20000, 0x2A6DF) || in(0x2A700, 0x2B73F) ||
         in(0x2B740, 0x2B81F) || in(0x2B920, 0x2CEAF) || in(0xF900, 0xFAFF) || in(0x2F800, 0x2FA1F);
}

bool is_script(std::string_view name) {
  return name.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, std::string(name).c_str()) != UCHAR_INVALID_CODE;
}

int script_of(char32_t code, int* any) {
  UErrorCode status = U_ZERO_ERROR;
  *any = USCRIPT_UNKNOWN;
  if (code == ' ') return USCRIPT_UNKNOWN;
  const UScriptCode script = uscript_getScript(of_icu(code), &status);
  const bool japanese = script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA || code == 0x30FC;
  return japanese ? USCRIPT_HAN : script;
}

void normalize(NormalForm form, std::string& text) {
  if (is_ascii(text)) return;
  const icu::Normalizer2& rules = rules_of(form);
  UErrorCode status = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (rules.isNormalizedUTF8(piece, status)) return;
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  icu::StringByteSink<std::string> sink(&out);
  status = U_ZERO_ERROR;
  rules.normalizeUTF8(0, piece, sink, nullptr, status);
  require(status, "normal forms");
  text = std::move(out);
}

void lowercase(std::string& text) {
  if (is_ascii(text)) {
    for (char& c : text)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return;
  }
  std::string out;
  out.reserve(text.size() + 8);
  for (size_t at = 0; at < text.size();) {
    const Character next = character_at(text, at);
    at += next.bytes;
    append(out, static_cast<char32_t>(u_tolower(of_icu(next.code))));
    if (next.code == 0x130) append(out, 0x307);  // the one character whose small form is two
  }
  text = std::move(out);
}

size_t grapheme_end(std::string_view text, size_t at) {
  const Character first = character_at(text, at);
  const size_t next = at + first.bytes;
  if (next >= text.size()) return next;
  const char32_t second = character_at(text, next).code;
  if (first.code < 0x80 && second < 0x80) return first.code == '\r' && second == '\n' ? next + 1 : next;
  if (plain(first.code) && plain(second)) return next;
  return cluster_end(text, at);
}

}  // namespace zrt::runtime::data::tokenizer_json
