// Trains a SentencePiece model (byte pair encoding, Sennrich et al. 2016) that keeps every byte: identity rule, byte
// pieces, spaces and newlines as they are. The same text and size give the same bytes: one thread, no random sampling.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data {

// Text that training reads at most; of longer text evenly spread lines. Training holds it in memory, about four times.
inline constexpr int64_t training_bytes = int64_t{64} << 20;

class SentencePieceTraining {
 public:
  // `vocabulary`: pieces, with <unk>, </s> (end of document), 256 bytes and the newline. `text_bytes`: of all that will
  // be added. Throws ConfigError for a vocabulary outside 512 … 2^20.
  SentencePieceTraining(int64_t vocabulary, int64_t text_bytes);

  void add(std::string_view document);

  // The bytes of the .model file, which may have fewer pieces than asked for where the text has no more. Throws
  // ConfigError when the vocabulary cannot hold the text's characters, DataError when there is no text.
  std::string train() const;

 private:
  void add_line(std::string_view line);

  int64_t vocabulary_;
  double share_;                  // of the text that is taken
  int64_t seen_ = 0, taken_ = 0;  // bytes
  std::vector<std::string> sentences_;
};

}  // namespace zrt::runtime::data
