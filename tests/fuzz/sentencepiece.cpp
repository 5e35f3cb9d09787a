// A SentencePiece model, from anywhere. SentencePiece itself is not instrumented; what it does to memory is still seen.
#include <algorithm>

#include "core/error.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/sentencepiece_training.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  try {
    const runtime::data::SentencePieceTokenizer tokenizer(std::string(input), "fuzz");
    const std::string text = "The kernel  reads \xC3\xA9t\xC3\xA9 \xE6\x97\xA5\n\n\xFF\x00 end.";
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids lie in the vocabulary");
    require(tokenizer.decode(ids) == text, "decode(encode(x)) == x");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

// One field of a protobuf message: its key, and where that says so the bytes behind a length.
struct Field {
  std::string key, bytes;
  bool sized = false;
};

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>((value & 127) | 128);
  return text + static_cast<char>(value);
}

// The fields of a message; none when it is not well formed.
std::vector<Field> split(std::string_view message) {
  std::vector<Field> fields;
  size_t at = 0;
  const auto number = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(message[at++]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < message.size()) {
    const uint64_t key = number();
    const size_t start = at;
    uint64_t length = key % 8 == 1 ? 8 : key % 8 == 5 ? 4 : 0;
    if (key % 8 == 0) number(), length = at - start, at = start;
    if (key % 8 == 2) length = number();
    if (key % 8 > 2 && key % 8 != 5) return {};
    if (length > message.size() - at) return {};
    fields.push_back({varint(key), std::string(message.substr(at, length)), key % 8 == 2});
    at += length;
  }
  return fields;
}

std::string join(const std::vector<Field>& fields) {
  std::string message;
  for (const Field& field : fields)
    message += field.key + (field.sized ? varint(field.bytes.size()) : "") + field.bytes;
  return message;
}

// Changes, copies, swaps or drops one field of the message or of one of its parts (a piece, the trainer, …).
std::string mutate_message(std::string_view input, uint32_t random, const Change& change, int depth) {
  std::vector<Field> fields = split(input);
  if (fields.empty()) return "";
  // Half of the changes go to the few parts behind the many pieces.
  const size_t count = fields.size(), last = std::min<size_t>(count, 4);
  const size_t at = random % 2 == 0 ? random / 2 % count : count - 1 - random / 2 % last;
  const uint32_t next = random * 2654435761u >> 7;
  switch (next % 8) {
    case 0:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(next / 8 % count), fields[at]);
      break;
    case 1:
      std::swap(fields[at], fields[next / 8 % count]);
      break;
    case 2:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 3:
      fields[at].bytes = change(fields[at].bytes);
      break;
    default: {
      const std::string inner = depth > 0 ? mutate_message(fields[at].bytes, next / 8, change, depth - 1) : "";
      fields[at].bytes = fields[at].sized && !inner.empty() ? inner : change(fields[at].bytes);
    }
  }
  return join(fields);
}

std::string mutate(std::string_view input, uint32_t random, const Change& change) {
  return mutate_message(input, random, change, 1);
}

std::map<std::string, std::string> seeds() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the kernel reads line " + std::to_string(i * 7919 % 1000) + " of the text\n";
  runtime::data::SentencePieceTraining training(512, static_cast<int64_t>(text.size()));
  training.add(text);
  return {{"small", training.train()}};
}

}  // namespace

const Target sentencepiece{"sentencepiece",
                           accepts,
                           seeds,
                           {"<unk>", "</s>", "<0x00>", "<0xFF>", "\xE2\x96\x81", "\x0A\x0C\x0A", "\x18\x06", "\x18\x03",
                            "\x1A\x06\x12", "\x12\x04", "\xFF\xFF\xFF\xFF\x0F"},
                           mutate};

}  // namespace zrt::fuzz
