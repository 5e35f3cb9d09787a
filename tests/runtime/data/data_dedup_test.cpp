// Duplicate documents, descriptions of tokenizers and languages, builds with SentencePiece.
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/duplicates.h"
#include "runtime/data/gpt_dataset.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_dedup_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

using Texts = std::vector<std::string>;

// The documents of a dataset as text, by its own tokenizer.
Texts texts_of(const std::string& prefix) {
  const auto tokenizer = open_tokenizer(common_tokenizer({prefix}, 1 << 20).value());
  Texts texts;
  for (const auto& tokens : test::read_dataset(prefix, tokenizer->vocab_size())) {
    CHECK(tokens.back() == tokenizer->eod());
    CHECK(std::count(tokens.begin(), tokens.end(), tokenizer->eod()) == 1);
    texts.push_back(tokenizer->decode(tokens));
  }
  return texts;
}

std::string paragraphs(int count, int repeat) {
  std::string text;
  for (int turn = 0; turn < repeat; ++turn)
    for (int i = 0; i < count; ++i) text += "paragraph number " + std::to_string(i * 7919 % 1000) + "\n\n";
  return text;
}

BuildOptions options_for(Texts inputs, const std::string& out) {
  BuildOptions options;
  options.inputs = std::move(inputs);
  options.out = out;
  options.dedup = true;
  options.force = true;  // data_refusal_test.cpp builds without it
  return options;
}

}  // namespace

TEST_CASE("documents are compared without blanks at line ends and blank lines around them", "[data]") {
  CHECK(normalised_document("a\nb") == "a\nb");
  CHECK(normalised_document("\n \t\na  \r\nb\t\n\n \n") == "a\nb");
  CHECK(normalised_document("a\rb\r") == "a\nb");
  CHECK(normalised_document("  a  b \n\n  c") == "  a  b\n\n  c");
  CHECK(normalised_document(" \n\t\r\n").empty());
  CHECK(normalised_document("").empty());
  DuplicateFinder finder;
  CHECK(!finder.seen("a\nb"));
  CHECK(finder.seen("a \r\nb\n\n"));
  CHECK(!finder.seen("a\n\nb"));
  CHECK(!finder.seen(" a\nb"));
  CHECK(!finder.seen("A\nb"));
  CHECK(!finder.seen(""));
  CHECK(finder.seen("\n"));
}

TEST_CASE("many documents are each found once", "[data]") {
  DuplicateFinder finder;
  for (int i = 0; i < 20000; ++i) CHECK(!finder.seen(std::to_string(i)));
  int found = 0;
  for (int i = 0; i < 20000; ++i) found += finder.seen(std::to_string(i));
  CHECK(found == 20000);
}

TEST_CASE("a build leaves out what occurred before in any of its inputs, and counts it", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "one\ntwo\n");
  write_file(folder / "b.txt", "three\n");
  write_file(folder / "c.txt", "one \r\ntwo");
  write_file(folder / "d.txt", "\nthree\n\n");
  BuildOptions options =
      options_for({folder / "a.txt", folder / "b.txt", folder / "c.txt", folder / "d.txt"}, folder / "x");
  const BuildResult result = build_dataset(options);
  CHECK(result.duplicates == 2);
  CHECK(result.train.meta.documents == 2);
  CHECK(texts_of(folder / "x") == Texts{"one\ntwo\n", "three\n"});
  options.dedup = false;
  CHECK(build_dataset(options).duplicates == 0);
  CHECK(texts_of(folder / "x").size() == 4);
}

TEST_CASE("no document is both in training and in validation", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", paragraphs(500, 1));
  write_file(folder / "b.txt", paragraphs(500, 2));
  BuildOptions options = options_for({folder / "a.txt", folder / "b.txt"}, folder / "out");
  options.documents = Documents::paragraph;
  options.validation = 0.1;
  const auto overlap = [&] {
    build_dataset(options);
    std::set<std::string> train;
    for (const std::string& text : texts_of(folder / "out/train")) train.insert(text);
    int both = 0;
    for (const std::string& text : texts_of(folder / "out/validation")) both += static_cast<int>(train.count(text));
    return both;
  };
  CHECK(overlap() == 0);
  options.dedup = false;
  CHECK(overlap() > 0);
}

TEST_CASE("a build trains a tokenizer on its training text and keeps it beside the data", "[data]") {
  const TemporaryFolder folder;
  std::string text = "Größe: \xE2\x96\x81 \xFF \t依赖\r\n\n";
  for (int i = 0; i < 40; ++i) text += "word" + std::string(static_cast<size_t>(i % 3), 'x') + " " + paragraphs(9, 1);
  write_file(folder / "a.txt", text);
  BuildOptions options = options_for({folder / "a.txt"}, folder / "out");
  options.documents = Documents::paragraph;
  options.tokenizer = "train";
  options.vocabulary = 512;
  options.validation = 0.05;
  options.language = "de";
  const BuildResult result = build_dataset(options);
  const auto train = read_meta(folder / "out/train"), validation = read_meta(folder / "out/validation");
  REQUIRE((train && validation));
  CHECK(train->tokenizer == "sentencepiece");
  CHECK(train->tokenizer_file == "tokenizer.model");
  CHECK(train->tokenizer_xxh3 == make_tokenizer(folder / "out/tokenizer.model")->xxh3());
  CHECK(validation->tokenizer_xxh3 == train->tokenizer_xxh3);
  CHECK(train->language == "de");
  CHECK(train->tokens < train->bytes);
  CHECK(train->vocabulary <= 512);
  int64_t bytes = 0;
  for (const std::string& part : texts_of(folder / "out/train")) bytes += static_cast<int64_t>(part.size());
  CHECK(bytes == train->bytes);

  // The same build gives the same files; another uses the tokenizer it is given.
  const std::string model = test::read_file(folder / "out/tokenizer.model");
  build_dataset(options);
  CHECK(test::read_file(folder / "out/tokenizer.model") == model);
  BuildOptions other = options_for({folder / "a.txt"}, folder / "other");
  other.tokenizer = folder / "out/tokenizer.model";
  build_dataset(other);
  CHECK(texts_of(folder / "other") == Texts{text});
  CHECK(test::read_file(folder / "other.model") == model);
  CHECK(common_tokenizer({folder / "out/train", folder / "other"}, 512)->vocabulary == train->vocabulary);
}

TEST_CASE("held-out text does not show in the pieces", "[data]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 900; ++i) text += i < 800 ? "training words\n" : "secret passage\n";
  write_file(folder / "a.txt", text);
  BuildOptions options = options_for({folder / "a.txt"}, folder / "out");
  options.tokenizer = "train";
  options.vocabulary = 512;
  options.validation = 0.12;  // the end of the file, all of the secrets
  build_dataset(options);
  const auto tokenizer = make_tokenizer(folder / "out/tokenizer.model");
  std::vector<int32_t> train, held;
  tokenizer->encode("training", train);
  tokenizer->encode("secret", held);
  CHECK(train.size() == 1);
  CHECK(held.size() > 3);
}

TEST_CASE("datasets of different tokenizers are refused together", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", paragraphs(300, 1));
  write_file(folder / "b.txt", "something else " + paragraphs(100, 1));
  BuildOptions options = options_for({folder / "a.txt"}, folder / "a");
  options.tokenizer = "train";
  options.vocabulary = 512;
  build_dataset(options);
  options.inputs = {folder / "b.txt"};
  options.out = folder / "b";
  build_dataset(options);
  options.tokenizer = "bytes";
  options.out = folder / "bytes";
  build_dataset(options);
  test::write_dataset(folder / "plain", 300, {{1, 2, 3}});
  const auto together = [&](const Texts& prefixes) {
    return error_of<ConfigError>([&] { common_tokenizer(prefixes, 1000); });
  };
  const std::string message = together({folder / "a", folder / "b"});
  CHECK((contains(message, folder / "a") && contains(message, folder / "b")));
  CHECK(contains(message, read_meta(folder / "a")->tokenizer_xxh3));
  CHECK(!together({folder / "a", folder / "bytes"}).empty());
  CHECK(together({folder / "a", folder / "plain"}).empty());
  CHECK(common_tokenizer({folder / "a"}, 1000)->unnamed.empty());
  for (const Texts& mixed : {Texts{folder / "a", folder / "plain"}, Texts{folder / "plain", folder / "a"}})
    CHECK(common_tokenizer(mixed, 1000)->unnamed == folder / "plain");
  CHECK(!common_tokenizer({folder / "plain"}, 1000));
  CHECK(contains(error_of<ConfigError>([&] { common_tokenizer({folder / "a"}, 100); }), "model.vocab is 100"));

  // Another model in the place of the dataset's own.
  write_file(folder / "a.model", test::read_file(folder / "b.model"));
  CHECK(contains(error_of<DataError>([&] { open_tokenizer(*common_tokenizer({folder / "a"}, 1000)); }),
                 (folder / "a.model") + ": its XXH3 is " + read_meta(folder / "b")->tokenizer_xxh3));
  std::filesystem::remove(folder / "a.model");
  CHECK(contains(error_of<DataError>([&] { open_tokenizer(*common_tokenizer({folder / "a"}, 1000)); }),
                 folder / "a.model"));
}

TEST_CASE("a description of other data, or of a file elsewhere, is refused", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", paragraphs(100, 1));
  BuildOptions options = options_for({folder / "a.txt"}, folder / "x");
  options.documents = Documents::paragraph;
  build_dataset(options);
  const std::string good = test::read_file(meta_path(folder / "x"));
  const auto with = [&](const char* key, const nlohmann::ordered_json& value) {
    auto json = nlohmann::ordered_json::parse(good);
    json[key] = value;
    write_file(meta_path(folder / "x"), json.dump());
    return error_of<DataError>([&] { open_documents(folder / "x"); });
  };
  CHECK(with("language", "fr").empty());
  CHECK(contains(with("tokens", 5), "x.meta.json: key 'tokens' is 5 but"));
  CHECK(contains(with("documents", 99), "key 'documents' is 99 but"));
  CHECK(contains(with("bytes", 1), "key 'bytes' is 1 but"));
  CHECK(contains(with("language", 3), "key 'language' is 3"));
  for (const char* path : {"../a.model", "/etc/passwd", "..", "."})
    CHECK(contains(with("tokenizer_file", path), "key 'tokenizer_file' is"));
}

}  // namespace zrt::data_dedup_test
