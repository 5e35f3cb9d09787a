// Text from trained weights, one token after the other with a key/value cache.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace zrt::runtime {

struct GenerateOptions {
  std::vector<int32_t> prompt;  // at least one token
  int64_t tokens = 200;         // new ones, at most; prompt and new tokens together fit model.sequence
  double temperature = 0.8;     // 0 takes the likeliest token
  int64_t top_k = 40;           // 0 for all
  uint64_t seed = 1;
  int32_t stop_token = -1;                  // ends the text
  std::function<void(int32_t token)> emit;  // called with each new token
};

// Runs the `decode` program of one rank over the weights of a checkpoint.
std::vector<int32_t> generate(const Config& config, const std::filesystem::path& checkpoint,
                              const GenerateOptions& options);

}  // namespace zrt::runtime
