// Datasets that others made: descriptions for those that have none, and datasets of mere ids.
#include <algorithm>
#include <cstring>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/foreign.h"
#include "runtime/data/gpt_dataset.h"
#include "runtime/data/text_measure.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_foreign_test {

using namespace zrt::runtime::data;
using test::contains;
using test::DocumentList;
using test::error_of;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

std::string paragraphs(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "Paragraph " + std::to_string(i * 7919 % 1009) + " says little.\n\n";
  return text;
}

template <class T>
std::string bytes_of(const std::vector<T>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T)};
}

// A dataset with its description, of a tokenizer of its own or of bytes.
BuildResult build(const TemporaryFolder& folder, const std::string& out, const std::string& tokenizer) {
  write_file(folder / "a.txt", paragraphs(300));
  BuildOptions options;
  options.inputs = {folder / "a.txt"}, options.out = out, options.tokenizer = tokenizer, options.vocabulary = 512;
  options.documents = Documents::paragraph, options.force = true;
  return build_dataset(options);
}

}  // namespace

TEST_CASE("a description made of ids is that of the text they were made from", "[data]") {
  const TemporaryFolder folder;
  for (const std::string tokenizer : {"train", "bytes"}) {
    INFO(tokenizer);
    const std::string prefix = folder / "x", model = folder / "t.model";
    build(folder, prefix, tokenizer);
    const std::string description = read_file(prefix + ".meta.json");
    DescribeOptions options{.prefix = prefix, .tokenizer = tokenizer, .language = "", .progress = {}};
    if (tokenizer == "train") std::filesystem::rename(prefix + ".model", model), options.tokenizer = model;
    CHECK(
        contains(error_of<ConfigError>([&] { describe_dataset(options); }), "x.meta.json: this file is there already"));
    std::filesystem::remove(prefix + ".meta.json");
    int64_t seen = 0;
    options.progress = [&](int64_t tokens, int64_t all) {
      CHECK((seen < tokens && tokens <= all));
      seen = tokens;
    };
    const BuiltPart part = describe_dataset(options);
    CHECK(read_file(prefix + ".meta.json") == description);
    CHECK(seen == part.meta.tokens);
    options.progress = {};
    CHECK(common_tokenizer({prefix}, 1000)->prefix == prefix);
    CHECK(open_tokenizer(*common_tokenizer({prefix}, 1000))->vocab_size() == part.meta.vocabulary);
    if (tokenizer == "train") {  // others may put several documents into a sequence
      test::DocumentList pairs;
      for (auto& document : test::read_dataset(prefix, 1000)) {
        if (pairs.empty() || std::count(pairs.back().begin(), pairs.back().end(), document.back()) == 2)
          pairs.emplace_back();
        pairs.back().insert(pairs.back().end(), document.begin(), document.end());
      }
      test::write_dataset(folder / "pairs", part.meta.vocabulary, pairs);
      const BuiltPart two =
          describe_dataset({.prefix = folder / "pairs", .tokenizer = model, .language = "", .progress = {}});
      CHECK(2 * two.meta.documents == part.meta.documents);
      CHECK((two.meta.bytes == part.meta.bytes && two.meta.unigram_entropy == part.meta.unigram_entropy));
    }
    options.language = "pt-br", options.force = true;
    describe_dataset(options);
    CHECK(read_meta(prefix)->language == "pt-br");
    // A description that was of another dataset is replaced.
    auto other = *read_meta(prefix);
    other.documents += 1;
    write_file(prefix + ".meta.json", to_json(other));
    CHECK_THROWS_AS(open_documents(prefix), DataError);
    CHECK_NOTHROW(describe_dataset(options));
    CHECK_NOTHROW(open_documents(prefix));
  }
}

TEST_CASE("a long document is measured in parts, and its text is that of the whole", "[data]") {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 700'000) text += paragraphs(200) + "caf\u00e9 \U0001F642\n";
  for (const char* name : {"gpt2", "llama2", "bert", "unigram"}) {
    INFO(name);
    const auto tokenizer = make_tokenizer(zrt::test::data_folder() + "/tokenizers/" + name + ".json");
    std::vector<int32_t> ids;
    tokenizer->encode(text, ids);
    REQUIRE(ids.size() > 140'000);
    const std::string whole = tokenizer->decode(ids);
    TextMeasure at_once(*tokenizer), in_pieces(*tokenizer);
    for (size_t at = 0; at < ids.size(); at += 30'000)
      in_pieces.add(std::span(ids).subspan(at, std::min<size_t>(30'000, ids.size() - at)));
    in_pieces.end_document();
    const DatasetMeta meta = in_pieces.meta("", "", 1, 0);
    ByteCounts counts{};
    for (const char c : whole) ++counts[static_cast<unsigned char>(c)];
    CHECK(meta.bytes == static_cast<int64_t>(whole.size()));
    CHECK(meta.unigram_entropy == unigram_entropy(counts));
  }
}

TEST_CASE("a description stays where a new one cannot be made", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x";
  build(folder, prefix, "bytes");
  const std::string was = read_file(prefix + ".meta.json");
  test::write_dataset(folder / "beyond", 1000, {{1, 2, 700}});
  std::filesystem::copy(prefix + ".meta.json", folder / "beyond.meta.json");
  CHECK(contains(
      error_of<DataError>([&] {
        describe_dataset(
            {.prefix = folder / "beyond", .tokenizer = "bytes", .language = "", .force = true, .progress = {}});
      }),
      "token 2 of sequence 0 is 700, but tokenizer bytes has ids 0 to 256"));
  CHECK(read_file(folder / "beyond.meta.json") == was);
}

TEST_CASE("ids that the tokenizer does not have are named with their place", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, {{1, 2, 256}, {7, 300, 256}});
  DescribeOptions options{.prefix = folder / "x", .tokenizer = "bytes", .language = "", .progress = {}};
  CHECK(error_of<DataError>([&] { describe_dataset(options); }) ==
        (folder / "x.bin") +
            ": token 1 of sequence 1 is 300, but tokenizer bytes has ids 0 to 256: another one made this dataset.");
  CHECK(!std::filesystem::exists(folder / "x.meta.json"));
  // Documents of other writers may lack their end.
  test::write_dataset(folder / "x", 60000, {{'a', 'b'}, {'c', 256}});
  CHECK(describe_dataset(options).meta.bytes == 3);
  CHECK(open_documents(folder / "x")->sequences() == 2);
  // One that holds more ends than documents has no text of the length that is checked.
  std::filesystem::remove(folder / "x.meta.json");
  test::write_dataset(folder / "x", 60000, {{'a', 256, 256}, {'c', 256}});
  CHECK(contains(error_of<DataError>([&] { describe_dataset(options); }), "key 'bytes' is 2 but"));
  options.prefix = folder / "none";
  CHECK(contains(error_of<DataError>([&] { describe_dataset(options); }), "none.idx: there is no such file"));
}

TEST_CASE("token files of llm.c can have a description beside them", "[data]") {
  const TemporaryFolder folder;
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 6;
  write_file(folder / "t_0.bin", bytes_of(header) + bytes_of(std::vector<uint16_t>{'a', 'b', 'c', 'd', 'e', 256}));
  const std::string name = folder / "t_*.bin";
  const BuiltPart part = describe_dataset({.prefix = name, .tokenizer = "bytes", .language = "de", .progress = {}});
  CHECK(part.meta.bytes == 5);
  CHECK(read_meta(name)->language == "de");
  CHECK_NOTHROW(open_documents(name));
  header[2] = 7;
  write_file(folder / "t_0.bin", bytes_of(header) + bytes_of(std::vector<uint16_t>{'a', 'b', 'c', 'd', 'e', 'f', 256}));
  CHECK(contains(error_of<DataError>([&] { open_documents(name); }), "key 'tokens' is 6 but " + name + " has 7"));
}

TEST_CASE("files of mere ids become a dataset whose documents end with the end-of-document id", "[data]") {
  const TemporaryFolder folder;
  ImportOptions options;
  options.inputs = {folder / "a.bin", folder / "b.bin"}, options.out = folder / "deep/x";
  options.vocabulary = 50257, options.eod = 50256;
  write_file(folder / "a.bin", bytes_of(std::vector<uint16_t>{1, 2, 50256, 50256, 3}));
  write_file(folder / "b.bin", bytes_of(std::vector<uint16_t>{4, 50256}));
  const BuiltPart part = import_ids(options);
  CHECK(test::read_dataset(folder / "deep/x", 50257) == DocumentList{{1, 2, 50256}, {50256}, {3}, {4, 50256}});
  CHECK(part.meta.tokens == 7);
  CHECK(!std::filesystem::exists(folder / "deep/x.meta.json"));
  CHECK(contains(error_of<ConfigError>([&] { import_ids(options); }), "deep/x.idx: this file is there already"));
  options.force = true, options.eod.reset();
  import_ids(options);
  CHECK(test::read_dataset(folder / "deep/x", 50257) == DocumentList{{1, 2, 50256, 50256, 3}, {4, 50256}});
  // These ids of four bytes are more than is read at once.
  std::vector<uint32_t> many(200'001);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<uint32_t>(i % 100'000);
  write_file(folder / "a.bin", bytes_of(many));
  options.inputs = {folder / "a.bin"}, options.id_bytes = 4, options.vocabulary = 100'000, options.eod = 70'000;
  import_ids(options);
  const DocumentList documents = test::read_dataset(folder / "deep/x", 100'000);
  REQUIRE(documents.size() == 3);
  CHECK((documents[0].size() == 70'001 && documents[1].size() == 100'000 && documents[2].size() == 30'000));
  CHECK((documents[1].front() == 70'001 && documents[1].back() == 70'000 && documents[2].back() == 0));
}

TEST_CASE("an import with the tokenizer is the dataset that a build of the text makes", "[data]") {
  const TemporaryFolder folder;
  for (const std::string tokenizer : {"train", "bytes"}) {
    build(folder, folder / "built", tokenizer);
    std::vector<uint16_t> ids;
    for (const auto& document : test::read_dataset(folder / "built", 1000))
      ids.insert(ids.end(), document.begin(), document.end());
    write_file(folder / "ids.bin", bytes_of(ids));
    ImportOptions options;
    options.inputs = {folder / "ids.bin"}, options.out = folder / "x", options.force = true;
    options.tokenizer = tokenizer == "train" ? folder / "built.model" : tokenizer;
    import_ids(options);
    for (const char* end : {".bin", ".idx"})
      CHECK(read_file(folder / ("x" + std::string(end))) == read_file(folder / ("built" + std::string(end))));
    const auto made = *read_meta(folder / "x"), was = *read_meta(folder / "built");
    CHECK(tokenizer_text(made) == tokenizer_text(was));
    CHECK((made.bytes == was.bytes && made.documents == was.documents && made.unigram_entropy == was.unigram_entropy));
    CHECK(open_tokenizer(*common_tokenizer({folder / "x"}, 1000))->vocab_size() == was.vocabulary);
  }
}

TEST_CASE("what is no file of ids is refused by name, and leaves nothing", "[data]") {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  ImportOptions options;
  options.inputs = {folder / "a.bin"}, options.out = folder / "out/x", options.vocabulary = 1000;
  const auto refusal = [&](const std::string& bytes) {
    write_file(folder / "a.bin", bytes);
    const std::string message = error_of<DataError>([&] { import_ids(options); });
    INFO(message);
    CHECK(message.find((folder / "a.bin") + ": ") == 0);
    CHECK(!std::filesystem::exists(folder / "out"));
    return message;
  };
  CHECK(contains(refusal(""), "the file is empty"));
  CHECK(contains(refusal("abc"), "the file is truncated, or its ids are of another size: it has 3 bytes"));
  CHECK(contains(refusal(bytes_of(std::vector<uint16_t>{1, 999, 1000})),
                 "id 2 is 1000, but the vocabulary has 1000 ids"));
  CHECK(contains(refusal(bytes_of(std::vector<int32_t>{20240520, 1, 0})), "llm.c's header"));
  CHECK(contains(refusal("\x93NUMPY\x01\0"s), "NumPy's header. Convert it first: python3 -c 'import sys, numpy;"));
  CHECK(contains(refusal("MMIDIDX\0"s), "the index of a dataset"));
  options.id_bytes = 4;
  CHECK(contains(refusal("abcdef"), "it has 6 bytes, which are no whole ids of 4"));
  CHECK(contains(refusal(bytes_of(std::vector<uint32_t>{1, 0xFFFFFFFFu})), "id 1 is 4294967295"));
  std::vector<uint32_t> late(100'000);
  late[90'000] = 1000;
  CHECK(contains(refusal(bytes_of(late)), "id 90000 is 1000"));
  options.inputs = {folder / "none.bin"};
  CHECK(contains(error_of<DataError>([&] { import_ids(options); }), "none.bin"));

  write_file(folder / "a.bin", "ab");
  options.inputs = {folder / "a.bin"}, options.id_bytes = 2;
  const auto bad = [&] { return error_of<ConfigError>([&] { import_ids(options); }); };
  options.out = folder / "a", options.force = true, options.vocabulary = 60000;
  CHECK(contains(bad(), "--out would replace this file, which is one of the inputs"));
  options.out = folder / "out/x", options.eod = 60000;
  CHECK(contains(bad(), "eod is 60000; legal are ids of the vocabulary, 0 to 59999"));
  options.tokenizer = "bytes";
  CHECK(contains(bad(), "tokenizer bytes says its vocabulary and its end-of-document id: leave out vocabulary"));
  options.tokenizer.clear(), options.vocabulary.reset();
  CHECK(contains(bad(), "neither a tokenizer nor a vocabulary is named"));
  CHECK(!std::filesystem::exists(folder / "out"));
}

}  // namespace zrt::data_foreign_test
