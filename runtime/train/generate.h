// Text from trained weights, one token after the other with a key/value cache.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/train/sampling.h"

namespace zrt::runtime {

struct GenerateOptions {
  std::vector<int32_t> prompt{};  // at least one token
  int64_t tokens = 200;           // new ones, at most; prompt and new tokens together fit model.sequence
  Sampling sampling{};
  uint32_t sample = 0;                        // its number: each has random numbers of its own
  std::vector<int32_t> stop_tokens{};         // each ends the text and is no part of it
  std::function<bool(int32_t token)> emit{};  // called with each new token, if set; false ends the text behind it
};

// The reason why a text ended.
enum class TextEnd : uint8_t { tokens, sequence, stop_token, caller };

struct GeneratedTokens {
  std::vector<int32_t> tokens;
  TextEnd end = TextEnd::tokens;
};

// Runs the `decode` program of one rank over the weights of a checkpoint.
class Generator {
 public:
  Generator(const Config& config, const std::filesystem::path& checkpoint);
  ~Generator();
  // A prompt that was the last one's, too, is not computed again.
  GeneratedTokens generate(const GenerateOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zrt::runtime
