// The prompts of zrt generate.
#pragma once
#include <string>
#include <vector>

#include "tools/commands/arguments.h"

namespace zrt::tools {

struct Prompt {
  std::string text;
  std::string place;  // "FILE:LINE"; "" for --prompt
};

// --prompt, or the lines of --prompts FILE: of a file that ends in .jsonl or .ndjson (.gz), objects with a `prompt`.
// Throws UsageError where both are given, DataError with file and line.
std::vector<Prompt> read_prompts(const po::variables_map& values);

}  // namespace zrt::tools
