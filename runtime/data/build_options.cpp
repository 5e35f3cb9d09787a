#include "runtime/data/build_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/data/json_lines.h"

namespace zrt::runtime::data {

namespace {

void require_lines(const InputFiles& inputs) {
  for (const InputFile& file : inputs.files) {
    if (!json_ending(file.path).empty()) continue;
    throw core::ConfigError(fmt::format(
        "{}: conversations (chat) are read from JSON lines alone: files whose names end in .jsonl, .ndjson or "
        ".json, or .gz or .zst of these. Leave it out, or rename it.",
        file.path));
  }
}

}  // namespace

void require_use(const InputFiles& inputs, const BuildOptions& options) {
  if (!options.chat.empty()) require_lines(inputs);
  const auto json = std::count_if(inputs.files.begin(), inputs.files.end(),
                                  [](const InputFile& file) { return !json_ending(file.path).empty(); });
  constexpr const char* none =
      "no input is one of JSON lines: their names end in .jsonl, .ndjson or .json, or .gz or .zst of "
      "these. Leave it out, or rename the file.";
  if (json == 0 && options.field) throw core::ConfigError(fmt::format("field is '{}', but {}", *options.field, none));
  if (json == 0 && options.skip_bad) throw core::ConfigError(fmt::format("bad lines are to be skipped, but {}", none));
  if (static_cast<size_t>(json) == inputs.files.size() && options.documents == Documents::paragraph)
    throw core::ConfigError(
        "documents is 'paragraph', but all inputs are JSON lines, in which each line is a document. Leave it out.");
}

void require_conversations(const BuildOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw core::ConfigError(what + " with conversations (chat): leave it out.");
  };
  if (options.tokenizer == "train")
    refuse("tokenizer is 'train', but a chat template needs the tokens of its model; none is trained");
  if (options.with_template)
    refuse("template is asked for, but the chat template writes all that stands around a text");
  if (options.field)
    refuse(
        fmt::format("field is '{}', but a line's 'messages', or 'prompt' and 'completion', are read", *options.field));
  if (options.documents == Documents::paragraph) refuse("documents is 'paragraph', but each line is a document");
}

void require_counts(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  std::vector<uint8_t> counted;
  tokenizer.encode_counted("", "", ids, counted);
}

}  // namespace zrt::runtime::data
