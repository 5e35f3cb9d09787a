#include "runtime/data/sentencepiece_training.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/utf8.h"

namespace zrt::runtime::data {

namespace {

// The trainer leaves out longer sentences, and those with a tab, which is a mark of its own.
constexpr size_t longest_sentence = 4096;

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}
  bool done() const override { return at_ >= sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  size_t at_ = 0;
};

}  // namespace

SentencePieceTraining::SentencePieceTraining(int64_t vocabulary, int64_t text_bytes)
    : vocabulary_(vocabulary),
      share_(static_cast<double>(training_bytes) / static_cast<double>(std::max(text_bytes, training_bytes))) {
  constexpr int64_t least = 512, most = 1 << 20;
  if (vocabulary < least || vocabulary > most)
    throw core::ConfigError(
        fmt::format("the tokenizer's vocabulary is {}; legal are {} to {}.", vocabulary, least, most));
}

void SentencePieceTraining::add(std::string_view document) {
  while (!document.empty()) {
    const size_t newline = document.find('\n');
    const std::string_view line = document.substr(0, newline == std::string_view::npos ? newline : newline + 1);
    if (static_cast<double>(taken_) <= share_ * static_cast<double>(seen_)) {
      taken_ += static_cast<int64_t>(line.size());
      add_line(line);
    }
    seen_ += static_cast<int64_t>(line.size());
    document.remove_prefix(line.size());
  }
}

void SentencePieceTraining::add_line(std::string_view line) {
  std::string sentence;
  const auto end = [&] {
    if (!sentence.empty()) sentences_.push_back(std::move(sentence));
    sentence.clear();
  };
  while (!line.empty()) {
    const size_t character = core::utf8_character(line);
    if (character == 0 || line[0] == '\t' || sentence.size() + character > longest_sentence) end();
    if (character > 0 && line[0] != '\t') sentence += line.substr(0, character);
    line.remove_prefix(std::max<size_t>(character, 1));
  }
  end();
}

std::string SentencePieceTraining::train() const {
  if (sentences_.empty()) throw core::DataError("there is no UTF-8 text to train a tokenizer on. Name more text.");
  const std::unordered_map<std::string, std::string> options{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocabulary_)},
      {"hard_vocab_limit", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"split_digits", "true"},
      {"allow_whitespace_only_pieces", "true"},
      {"user_defined_symbols", "\n"},
      {"unk_id", "0"},
      {"bos_id", "-1"},
      {"eos_id", "1"},
      {"pad_id", "-1"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"max_sentence_length", std::to_string(longest_sentence)},
      {"num_threads", "1"},
      {"minloglevel", "2"},
  };
  Sentences sentences(sentences_);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
  if (!status.ok())
    throw core::ConfigError(
        fmt::format("a tokenizer of {} pieces cannot be trained on this text: {}. Choose another vocabulary size, or "
                    "name more text.",
                    vocabulary_, status.message()));
  return model;
}

}  // namespace zrt::runtime::data
