// The tokenizer of a trained model, and whether its template stands around texts.
#pragma once
#include <optional>
#include <string>

#include "runtime/data/text_coder.h"
#include "runtime/train/checkpoint/strict_json.h"
#include "runtime/train/resume.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

// --tokenizer, --eod, --template, --no-template.
struct TokenizerWish {
  std::string given;  // "": the one of the run's data, or the one that the run carries
  std::string eod;    // "": that of the data, or of the tokenizer
  std::optional<bool> with_template;
};

void add_tokenizer_options(po::options_description& options, const std::string& of);
// Throws UsageError where both --template and --no-template are given.
TokenizerWish tokenizer_wish(const po::variables_map& values);

struct RunTokenizer {
  runtime::data::TextCoder coder;
  std::string rule;  // why it has its template or not; "" where the tokenizer has none
};

// `made_by`: of the checkpoint's manifest, which says what the run has learned. Texts stand in the template where the
// run's data does; a run without data has it as transformers does. Throws ConfigError where the wish contradicts the
// run, and where no tokenizer is known.
RunTokenizer choose_tokenizer(const runtime::Config& config, const runtime::RunPaths& run,
                              const runtime::checkpoint::Json& made_by, const TokenizerWish& wish);

}  // namespace zrt::tools
