// A SentencePiece model, from anywhere. SentencePiece itself is not instrumented; what it does to memory is still seen.
#include "core/error.h"
#include "models/data/sentencepiece_tokenizer.h"
#include "models/data/sentencepiece_training.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  try {
    const models::data::SentencePieceTokenizer tokenizer(std::string(input), "fuzz");
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

std::map<std::string, std::string> seeds() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the kernel reads line " + std::to_string(i * 7919 % 1000) + " of the text\n";
  models::data::SentencePieceTraining training(512, static_cast<int64_t>(text.size()));
  training.add(text);
  return {{"small", training.train()}};
}

}  // namespace

const Target sentencepiece{"sentencepiece",
                           accepts,
                           seeds,
                           {"<unk>", "</s>", "<0x00>", "<0xFF>", "\xE2\x96\x81", "\x0A\x0C\x0A", "\x18\x06", "\x18\x03",
                            "\x1A\x06\x12", "\x12\x04", "\xFF\xFF\xFF\xFF\x0F"}};

}  // namespace zrt::fuzz
