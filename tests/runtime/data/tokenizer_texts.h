// The texts of tests/data/tokenizers, as tests/data/make_tokenizer_goldens.py makes them, too.
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/data_folder.h"

namespace zrt::test {

inline std::string tokenizer_file(const std::string& name) {
  return data_folder() + "/tokenizers/" + name + ".json";
}

inline nlohmann::json read_tokenizer_data(const std::string& name) {
  std::ifstream file(tokenizer_file(name));
  return nlohmann::json::parse(file);
}

class TextRandom {
 public:
  explicit TextRandom(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

inline std::string language_text(const nlohmann::json& texts, const std::string& language, size_t size, uint64_t seed) {
  TextRandom random(seed);
  const auto words = texts.at("words").at(language).get<std::vector<std::string>>();
  const auto between = texts.at("between").get<std::vector<std::string>>();
  const auto unspaced = texts.at("unspaced").get<std::vector<std::string>>();
  const bool spaced = std::find(unspaced.begin(), unspaced.end(), language) == unspaced.end();
  std::string out;
  while (out.size() < size) {
    const uint64_t kind = random.below(16);
    if (kind == 0) {
      out += between[random.below(between.size())];
    } else if (kind == 1) {
      uint64_t limit = 1;
      for (uint64_t digits = 1 + random.below(8); digits > 0; --digits) limit *= 10;
      out += std::to_string(random.below(limit));
    } else {
      out += words[random.below(words.size())];
      if (kind == 2) out += words[random.below(words.size())];
    }
    if (spaced && kind > 2) out += ' ';
  }
  return out;
}

inline std::string text_without_space(size_t size) {
  TextRandom random(99);
  std::string out;
  while (out.size() < size) {
    const uint64_t first = random.below(26);
    out += "etaoinshrdlucmfwypvbgkjqxz"[first * random.below(26) / 26];
  }
  return out;
}

constexpr uint64_t fnv_begin = 0xCBF29CE484222325u;
inline uint64_t fnv(std::span<const int32_t> ids, uint64_t value = fnv_begin) {
  for (const int32_t id : ids) value = (value ^ static_cast<uint64_t>(id)) * 0x100000001B3u;
  return value;
}

}  // namespace zrt::test
