#include "runtime/data/sentencepiece_fields.h"

#include <fmt/format.h>

#include <cstdint>

#include "core/error.h"

namespace zrt::runtime::data {

namespace {

// Field numbers of the message and of its parts.
constexpr uint64_t pieces = 1, trainer = 2, normalizer = 3, self_test = 4, denormalizer = 5;
constexpr uint64_t trainer_byte_fallback = 35, normalizer_add_dummy_prefix = 3, piece_text = 1;

struct Field {
  uint64_t number = 0, value = 0;  // value of an integer
  std::string_view bytes;          // of a part
  std::string_view whole;          // with its key
};

// Walks the fields of one message; protobuf's wire format is keys (number << 3 | type) and values.
class Walker {
 public:
  Walker(std::string_view message, const std::string& source) : rest_(message), source_(source) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::string_view start = rest_;
    const uint64_t key = varint();
    field = {};
    field.number = key >> 3;
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        fail();
    }
    if (field.number == 0) fail();
    field.whole = start.substr(0, start.size() - rest_.size());
    return true;
  }

 private:
  [[noreturn]] void fail() const {
    throw core::DataError(fmt::format(
        "{}: this is not a SentencePiece model, or it is truncated or corrupt. Copy it again, or train one with "
        "`zrt data tokenizer`.",
        source_));
  }
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }

  std::string_view rest_;
  const std::string& source_;
};

}  // namespace

std::vector<std::string> read_model_pieces(std::string_view model, const std::string& source) {
  std::vector<std::string> texts;
  Walker walker(model, source);
  for (Field field; walker.next(field);) {
    if (field.number != pieces) continue;
    std::string& text = texts.emplace_back();
    Walker part(field.bytes, source);
    for (Field inner; part.next(inner);)
      if (inner.number == piece_text) text = std::string(inner.bytes);
  }
  return texts;
}

ModelFields read_model_fields(std::string_view model, const std::string& source) {
  // Appended parts are merged into those before them. Field numbers: character map 2, dummy prefix 3, extra spaces 4.
  constexpr std::string_view identity_normalizer("\x1A\x06\x12\x00\x18\x00\x20\x00", 8);
  ModelFields result;
  bool has_pieces = false, has_trainer = false, has_normalizer = false;
  Walker walker(model, source);
  for (Field field; walker.next(field);) {
    has_pieces = has_pieces || field.number == pieces;
    if (field.number == trainer) {
      has_trainer = true;
      Walker part(field.bytes, source);
      for (Field inner; part.next(inner);)
        if (inner.number == trainer_byte_fallback) result.byte_fallback = inner.value != 0;
    }
    if (field.number == normalizer) {
      has_normalizer = true;
      Walker part(field.bytes, source);
      for (Field inner; part.next(inner);)
        if (inner.number == normalizer_add_dummy_prefix) result.add_dummy_prefix = inner.value != 0;
    }
    if (field.number != self_test && field.number != denormalizer) result.identity += field.whole;
  }
  if (!has_pieces || !has_trainer || !has_normalizer)
    throw core::DataError(fmt::format("{}: the SentencePiece model has no {}; the file is truncated. Copy it again.",
                                      source,
                                      !has_pieces    ? "pieces"
                                      : !has_trainer ? "trainer"
                                                     : "normalizer"));
  result.identity += identity_normalizer;
  return result;
}

}  // namespace zrt::runtime::data
