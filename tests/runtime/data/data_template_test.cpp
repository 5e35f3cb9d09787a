// The ids of a tokenizer's template: around documents where a build asks for it, and in front of prompts.
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/foreign.h"
#include "runtime/data/text_coder.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/tokenizer_texts.h"

namespace zrt::data_template_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;
using Ids = std::vector<int32_t>;

namespace {

const std::string of_llama = zrt::test::data_folder() + "/template/tokenizer.json";

struct Built {
  TemporaryFolder folder;
  BuildOptions options;
  BuildResult result;

  explicit Built(const std::string& tokenizer, bool with_template = true) {
    write_file(folder / "a.jsonl", "{\"text\": \"The smith mended\"}\n{\"text\": \"two nets\"}\n");
    options.inputs = {folder / "a.jsonl"}, options.out = folder / "x", options.force = true;
    options.tokenizer = tokenizer, options.with_template = with_template;
    result = build_dataset(options);
  }
  test::DocumentList documents() const { return test::read_dataset(folder / "x", 1 << 20); }
};

Ids ids_of(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("the ids of prompts are those of transformers' tokenizer, its template included") {
  const TextCoder coder(make_tokenizer(of_llama), true), plain(make_tokenizer(of_llama));
  const auto goldens = nlohmann::json::parse(std::ifstream(zrt::test::data_folder() + "/template/goldens.json"));
  REQUIRE(goldens["prompts"].size() > 5);
  for (const auto& golden : goldens["prompts"]) {
    const std::string text = golden["prompt"];
    CAPTURE(text);
    Ids expected = golden["ids"];
    CHECK(coder.prompt(text) == expected);
    expected.erase(expected.begin());
    CHECK(plain.prompt(text) == (text.empty() ? Ids{2} : expected));
  }
}

TEST_CASE("a build with the template puts it around each document, and its description says so") {
  const Built with(of_llama), without(of_llama, false);
  CHECK(with.result.train.meta.templated);
  CHECK(contains(test::read_file(with.folder / "x.meta.json"), "\"template\": true"));
  CHECK(!contains(test::read_file(without.folder / "x.meta.json"), "template"));
  test::DocumentList expected = without.documents();
  REQUIRE(expected.size() == 2);
  for (Ids& document : expected) {
    CHECK((document.front() != 1 && document.back() == 2));
    document.insert(document.begin(), 1);
  }
  CHECK(with.documents() == expected);
  CHECK(with.result.train.meta.bytes == without.result.train.meta.bytes);

  const Built bert(test::tokenizer_file("bert"));  // [SEP] ends documents, and the template
  const TextCoder coder(make_tokenizer(test::tokenizer_file("bert")), true);
  Ids document{2};
  for (const int32_t id : ids_of(coder.tokenizer(), "two nets")) document.push_back(id);
  document.push_back(3);
  CHECK(bert.documents().at(1) == document);
  BuildOptions other = bert.options;
  other.eod = "[MASK]";
  build_dataset(other);
  document.push_back(4);
  CHECK(bert.documents().at(1) == document);
}

TEST_CASE("datasets with and without the template are not read together, and one is opened as it was built") {
  const Built with(of_llama), without(of_llama, false);
  CHECK(open_coder(*common_tokenizer({with.folder / "x"}, 1000)).with_template());
  CHECK(!open_coder(*common_tokenizer({without.folder / "x"}, 1000)).with_template());
  CHECK(contains(error_of<ConfigError>([&] {
                   common_tokenizer({without.folder / "x", with.folder / "x"}, 1000);
                 }),
                 "documents of dataset " + (with.folder / "x") + " stand in the tokenizer's template and those of " +
                     (without.folder / "x") + " do not"));
  write_file(with.folder / "x.meta.json", "{\"tokenizer\": \"bytes\", \"template\": 1}");
  CHECK(contains(error_of<DataError>([&] { read_meta(with.folder / "x"); }), "key 'template' is 1; it must be true"));
}

TEST_CASE("a template that there is not is refused") {
  for (const std::string& tokenizer : {std::string("bytes"), test::tokenizer_file("gpt2")}) {
    const std::string said = error_of<ConfigError>([&] { Built{tokenizer}; });
    CHECK(contains(said, "template is asked for, but the tokenizer '"));
    CHECK(contains(said, "Leave --template out"));
  }
  CHECK(contains(error_of<ConfigError>([] { Built{"train"}; }), "a tokenizer that is trained has none"));
}

TEST_CASE("a description made of ids knows documents in the template by their first ids") {
  for (const bool with : {false, true}) {
    const Built built(of_llama, with);
    std::string ids;
    for (const Ids& document : built.documents())
      for (const int32_t id : document) ids += {static_cast<char>(id & 255), static_cast<char>(id >> 8)};
    write_file(built.folder / "ids.bin", ids);
    ImportOptions import;
    import.inputs = {built.folder / "ids.bin"}, import.out = built.folder / "imported", import.tokenizer = of_llama;
    CHECK(import_ids(import).meta.templated == with);
    CHECK(describe_dataset(
              {.prefix = built.folder / "x", .tokenizer = of_llama, .language = "", .force = true, .progress = {}})
              .meta.templated == with);
  }
}

}  // namespace zrt::data_template_test
