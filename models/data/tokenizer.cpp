#include "models/data/tokenizer.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::models::data {

const std::string& ByteTokenizer::name() const {
  static const std::string bytes = "bytes";
  return bytes;
}

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  out.reserve(out.size() + text.size());
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
}

std::string ByteTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t id : tokens) {
    if (id < 0 || id > eod())
      throw core::DataError(
          fmt::format("token id {} cannot be decoded: the byte tokenizer has ids 0 to {}.", id, eod()));
    if (id != eod()) text.push_back(static_cast<char>(id));
  }
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == ByteTokenizer().name()) return std::make_unique<ByteTokenizer>();
  throw core::ConfigError(fmt::format("tokenizer '{}' is not known; legal is: bytes.", name));
}

}  // namespace zrt::models::data
