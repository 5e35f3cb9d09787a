#include "runtime/data/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/tokenizer_json/tokenizer_json.h"

namespace zrt::runtime::data {

const std::string& Tokenizer::xxh3() const {
  static const std::string none;
  return none;
}

namespace {

const std::vector<int32_t> no_ids;

}  // namespace

const std::vector<int32_t>& Tokenizer::before_text() const {
  return no_ids;
}
const std::vector<int32_t>& Tokenizer::after_text() const {
  return no_ids;
}

void Tokenizer::encode_counted(std::string_view, std::string_view, std::vector<int32_t>&, std::vector<uint8_t>&) const {
  throw core::ConfigError(
      fmt::format("the tokenizer is a {} model, which does not know the tokens of a chat template, such as <|im_end|>. "
                  "Take the tokenizer.json of the model's folder.",
                  name()));
}

WordPart word_part_of(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return WordPart::between;  // also of no text at all
  return first > 0 ? WordPart::begins : WordPart::continues;
}

WordPart ByteTokenizer::word_part(int32_t token) const {
  const char byte = static_cast<char>(token);
  return token == eod() ? WordPart::between : word_part_of({&byte, 1});
}

const std::string& ByteTokenizer::name() const {
  static const std::string bytes = "bytes";
  return bytes;
}

void ByteTokenizer::encode(std::string_view document, std::vector<int32_t>& out) const {
  out.reserve(out.size() + document.size());
  for (const char c : document) out.push_back(static_cast<unsigned char>(c));
}

void ByteTokenizer::encode_counted(std::string_view text, std::string_view counts, std::vector<int32_t>& out,
                                   std::vector<uint8_t>& counted) const {
  encode(text, out);
  counted.insert(counted.end(), counts.begin(), counts.end());
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

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::string& eod) {
  const bool bytes = name == ByteTokenizer().name();  // whatever folder has that name
  const auto in_folder = std::filesystem::path(name) / "tokenizer.json";
  std::error_code failed;
  if (!bytes && std::filesystem::is_regular_file(in_folder, failed))
    return tokenizer_json::JsonTokenizer::open(in_folder.string(), eod);
  if (has_suffix(name, ".json")) return tokenizer_json::JsonTokenizer::open(name, eod);
  if (!eod.empty())
    throw core::ConfigError(fmt::format(
        "--eod is '{}' but the tokenizer is '{}', whose end of documents is known; only a tokenizer.json has "
        "one to choose. Leave it out.",
        eod, name));
  if (bytes) return std::make_unique<ByteTokenizer>();
  if (has_suffix(name, ".model")) return SentencePieceTokenizer::open(name);
  throw core::ConfigError(
      fmt::format("tokenizer '{}' is not known; legal are: bytes, the path of a SentencePiece model, which ends in "
                  ".model, that of a "
                  "tokenizer.json of Hugging Face, which ends in .json, and a folder with one.",
                  name));
}

}  // namespace zrt::runtime::data
