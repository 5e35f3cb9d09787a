#include "core/keys/text.h"

#include <algorithm>
#include <numeric>

#include "core/printable.h"

namespace zrt::core::keys {
namespace {

// Levenshtein's distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t up = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, up + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t limit = 60;
  size_t end = std::min(limit, text.size());
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  std::string result = "'";
  result += printable(text.substr(0, end));
  result += text.size() > limit ? "…'" : "'";
  return result;
}

bool valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t more = first < 0x80                    ? 0
                        : first >= 0xC2 && first < 0xE0 ? 1
                        : first >= 0xE0 && first < 0xF0 ? 2
                        : first >= 0xF0 && first < 0xF5 ? 3
                                                        : 4;
    if (more == 4 || text.size() - i <= more) return false;
    uint32_t code = more == 0 ? first : first & (0x3Fu >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xC0) != 0x80) return false;
      code = code << 6 | (byte & 0x3Fu);
    }
    // Overlong forms, halves of surrogate pairs and codes beyond Unicode.
    if ((more == 2 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) ||
        (more == 3 && (code < 0x10000 || code > 0x10FFFF))) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&text](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
    return;
  }
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string nearest(std::string_view wanted, const std::vector<std::string>& words) {
  const std::string_view key = wanted.substr(0, 64);  // bounds the work on hostile input
  size_t best = std::max<size_t>(2, key.size() / 3) + 1;
  std::string result;
  for (const std::string& word : words) {
    const size_t distance = edit_distance(key, word);
    if (distance < best && distance < word.size()) best = distance, result = word;
  }
  return result;
}

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); });
  return result;
}

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : std::string(between)) + word;
  return result;
}

}  // namespace zrt::core::keys
