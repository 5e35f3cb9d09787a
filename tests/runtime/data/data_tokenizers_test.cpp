// Datasets that are read together have one tokenizer.
#include <functional>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/data/dataset_tokenizer.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_tokenizers_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;

TEST_CASE("datasets whose tokenizers differ in one thing alone, name, model or size, are not read together") {
  const TemporaryFolder folder;
  const auto meta = [](const std::function<void(DatasetMeta&)>& change) {
    DatasetMeta made{.tokenizer = "sentencepiece",
                     .vocabulary = 300,
                     .documents = 1,
                     .tokens = 2,
                     .bytes = 3,
                     .unigram_entropy = 4,
                     .tokenizer_file = "one.model",
                     .tokenizer_xxh3 = "0123456789abcdef"};
    change(made);
    return to_json(made);
  };
  const std::string first = folder / "first", second = folder / "second";
  write_file(first + ".meta.json", meta([](DatasetMeta&) {}));
  const auto together = [&] { return common_tokenizer({first, second}, 1000); };
  // Another file of the same model, and another language, are the same tokenizer.
  write_file(second + ".meta.json",
             meta([](DatasetMeta& m) { m.tokenizer_file = "copy.model", m.language = "de", m.tokens = 9; }));
  const auto common = together();
  REQUIRE(common);
  CHECK(common->prefix == first);
  CHECK(common->file == folder / "one.model");
  const std::function<void(DatasetMeta&)> changes[]{[](DatasetMeta& m) { m.tokenizer = "words"; },
                                                    [](DatasetMeta& m) { m.tokenizer_xxh3 = "fedcba9876543210"; },
                                                    [](DatasetMeta& m) { m.vocabulary = 301; }};
  for (const auto& change : changes) {
    write_file(second + ".meta.json", meta(change));
    const std::string message = error_of<ConfigError>(together);
    INFO(message);
    CHECK(contains(message, "their token ids mean different text"));
    CHECK(contains(message, first));
    CHECK(contains(message, second));
  }
  write_file(second + ".meta.json", meta([](DatasetMeta& m) { m.tokenizer_eod = "</s>"; }));
  CHECK(contains(error_of<ConfigError>(together), "Build both with the same --eod"));
}

}  // namespace zrt::data_tokenizers_test
