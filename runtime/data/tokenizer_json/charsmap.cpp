// SentencePiece's normalisation rules as they lie in its models: bytes of a double array (Aoe 1989), then the texts
// that it points to, each with a zero at its end.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/utf8.h"
#include "runtime/data/tokenizer_json/normalizer.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr size_t longest_cluster = 5;  // bytes of a cluster that is looked up whole

std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const std::array<int16_t, 256> values = [&] {
    std::array<int16_t, 256> all{};
    all.fill(-1);
    for (size_t i = 0; i < digits.size(); ++i) all[static_cast<unsigned char>(digits[i])] = static_cast<int16_t>(i);
    return all;
  }();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int16_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held >= 8) out += static_cast<char>(bits >> (held -= 8) & 255);
  }
  return out;
}

class Charsmap : public Normalizer {
 public:
  Charsmap(std::vector<uint32_t> units, std::string texts) : units_(std::move(units)), texts_(std::move(texts)) {}

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t end = grapheme_end(text, at);
      const std::string_view cluster = std::string_view(text).substr(at, end - at);
      at = end;
      if (cluster.size() <= longest_cluster) {
        if (const auto found = find(cluster)) {
          out += *found;
          continue;
        }
      }
      for (size_t i = 0; i < cluster.size();) {
        const std::string_view one = cluster.substr(i, character_at(cluster, i).bytes);
        out += find(one).value_or(one);
        i += one.size();
      }
    }
    text = std::move(out);
  }

 private:
  // The text for the shortest key that `key` begins with.
  std::optional<std::string_view> find(std::string_view key) const {
    size_t node = 0;
    if (units_.empty()) return std::nullopt;
    node ^= offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size() || (units_[node] & 0x800000FFu) != byte) return std::nullopt;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const size_t begin = units_[node] & 0x7FFFFFFFu;
      // A corrupt map may point into the middle of a character.
      if (begin >= texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xC0u) == 0x80u) return std::nullopt;
      return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
    }
    return std::nullopt;
  }
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 512) >> 6); }

  std::vector<uint32_t> units_;
  std::string texts_;  // ends with a zero
};

class Unchanged : public Normalizer {
 public:
  void apply(std::string&) const override {}
};

uint32_t number_at(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::unique_ptr<Normalizer> read_charsmap(Fields& fields) {
  constexpr const char* key = "precompiled_charsmap";
  const auto bytes = decode_base64(fields.text(key, ""));
  if (bytes && bytes->empty()) return std::make_unique<Unchanged>();
  if (!bytes || bytes->size() < 4) fields.refuse(key, "it must be a charsmap of SentencePiece in base64");
  const size_t array = number_at(*bytes, 0);
  if (array % 4 != 0 || array > bytes->size() - 4)
    fields.refuse(key, fmt::format("its double array has {} bytes of the {} there are; it is truncated or corrupt",
                                   array, bytes->size() - 4));
  std::vector<uint32_t> units;
  for (size_t at = 4; at < 4 + array; at += 4) units.push_back(number_at(*bytes, at));
  std::string texts = bytes->substr(4 + array) + '\0';
  for (size_t at = 0; at < texts.size();) {
    const size_t end = texts.find('\0', at);
    const std::string_view text = std::string_view(texts).substr(at, end - at);
    if (well_formed_bytes(text) != text.size())
      fields.refuse(key, fmt::format("its text at byte {} is not UTF-8; it is corrupt", at));
    at = end + 1;
  }
  return std::make_unique<Charsmap>(std::move(units), std::move(texts));
}

}  // namespace zrt::runtime::data::tokenizer_json
