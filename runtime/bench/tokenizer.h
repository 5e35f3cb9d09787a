// Measures how fast a tokenizer turns text into ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/bench/bench.h"

namespace zrt::runtime {

struct TokenizerBenchOptions {
  std::string tokenizer, eod;      // make_tokenizer()
  std::vector<std::string> files;  // of text
  int64_t document = 0;            // bytes of a document at most; each ends with a line where one ends
  int threads = 1, rounds = 1;
};

struct TokenizerBench {
  int64_t bytes = 0, documents = 0, tokens = 0;
  Spread bytes_per_second;
};

// Every round encodes all documents, which the threads share; the first one is not counted. Throws ConfigError and
// DataError.
TokenizerBench bench_tokenizer(const TokenizerBenchOptions& options, const Progress& progress);

}  // namespace zrt::runtime
