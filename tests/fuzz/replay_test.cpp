// Findings of fuzzers stay mended, and the fuzzers' starting inputs are good ones.
#include "tests/catch.h"
#include "tests/data_folder.h"
#include "tests/fuzz/target.h"

namespace zrt::replay_test {

using namespace zrt::fuzz;

namespace {
const std::vector<const Target*> all_targets{&chat_template, &config,    &dataset,        &dataset_meta,
                                             &llmc,          &manifest,  &raw_ids,        &safetensors,
                                             &sentencepiece, &documents, &tokenizer_json, &tasks};
}  // namespace

TEST_CASE("readers accept what our writers write") {
  for (const Target* target : all_targets) {
    for (const auto& [name, bytes] : target->seeds()) {
      INFO(target->name << " " << name);
      CHECK(target->accepts(bytes));
    }
  }
}

TEST_CASE("readers survive the inputs that fuzzers found, and every seed cut short or with a byte changed") {
  for (const Target* target : all_targets) {
    INFO(target->name);
    const std::filesystem::path found = std::filesystem::path(zrt::test::data_folder()) / "fuzz" / target->name;
    if (std::filesystem::exists(found)) {
      for (const auto& entry : std::filesystem::directory_iterator(found)) target->accepts(read(entry.path()));
    }
    for (const auto& [name, bytes] : target->seeds()) {
      const size_t step = 1 + bytes.size() / 150;
      for (size_t at = 0; at < bytes.size(); at += step) {
        target->accepts(std::string_view(bytes).substr(0, at));
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ 0x41);
        target->accepts(changed);
      }
    }
    SUCCEED();
  }
}

}  // namespace zrt::replay_test
