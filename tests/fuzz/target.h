// A target is what is fuzzed: a reader of bytes that come from outside, and what it must do with any of them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::fuzz {

using Change = std::function<std::string(std::string_view)>;

// One target per file. The fuzzer feeds it, and an ordinary test replays tests/data/fuzz/<name>/ (the inputs that once
// were findings) and the seeds.
struct Target {
  const char* name;
  // Reads the input and uses all it gave. True when it is accepted, false when it is refused as it should be: with a
  // typed error. Everything else is a finding: another exception, a broken invariant (see require), a sanitizer report.
  bool (*accepts)(std::string_view input);
  std::map<std::string, std::string> (*seeds)();  // good inputs by name, from our own writers
  std::vector<std::string> dictionary;
  // Optional: a changed input that is still of the format, where blind changes seldom are. `random` chooses the change;
  // `change` alters bytes of a part.
  std::string (*mutate)(std::string_view input, uint32_t random, const Change& change) = nullptr;
};

extern const Target chat_template, config, dataset, dataset_meta, llmc, manifest, raw_ids, safetensors, sentencepiece,
    documents, tokenizer_json, tasks;

inline void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

// A folder of this process for readers of files; removed at exit.
const std::filesystem::path& folder();
void write(const std::filesystem::path& file, std::string_view bytes);
std::string read(const std::filesystem::path& file);

}  // namespace zrt::fuzz
