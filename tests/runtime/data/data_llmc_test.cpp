// llm.c's token files: documents, shards, samples, and damaged files.
#include "catch.h"
#include "core/error.h"
#include "runtime/data/gpt_dataset.h"
#include "runtime/data/llmc_dataset.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_llmc_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using zrt::core::DataError;

namespace {

constexpr int32_t gpt2 = 20240520, llama3 = 20240801;

template <class T>
std::string shard(const std::vector<T>& tokens, int32_t magic, int32_t version) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  return bytes.append(reinterpret_cast<const char*>(tokens.data()), sizeof(T) * tokens.size());
}

const std::vector<uint16_t> first{50256, 1, 2, 3, 50256, 50256, 4, 5}, second{6, 7, 50256, 8};

std::vector<std::vector<int32_t>> documents_of(const TokenDocuments& data) {
  std::vector<std::vector<int32_t>> documents;
  for (int64_t i = 0; i < data.sequences(); ++i) {
    documents.emplace_back(static_cast<size_t>(data.length(i)));
    data.read(i, 0, data.length(i), 200000, documents.back().data());
  }
  return documents;
}

}  // namespace

TEST_CASE("documents of token files start with the end-of-text id", "[data]") {
  const TemporaryFolder folder;
  test::write_file(folder / "a.bin", shard(first, gpt2, 1));
  const auto data = open_documents(folder / "a.bin");
  CHECK(data->tokens() == 8);
  CHECK(documents_of(*data) == std::vector<std::vector<int32_t>>{{50256, 1, 2, 3}, {50256}, {50256, 4, 5}});
  test::write_file(folder / "b.bin", shard<uint32_t>({1, 128000, 127999, 128000}, llama3, 7));
  CHECK(documents_of(*open_documents(folder / "b.bin")) ==
        std::vector<std::vector<int32_t>>{{1}, {128000, 127999}, {128000}});
  test::write_file(folder / "empty.bin", shard<uint16_t>({}, gpt2, 1));
  CHECK(open_documents(folder / "empty.bin")->sequences() == 0);
}

TEST_CASE("a document of a token file begins at every end-of-text id, however far into the file", "[data]") {
  const TemporaryFolder folder;
  // Files are read 4,096 tokens at a time.
  const std::vector<std::vector<size_t>> places{
      {0}, {4095}, {4096}, {4097}, {8192}, {8999}, {0, 4096}, {0, 1, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 8999}};
  const auto check = [&]<class T>(const std::vector<size_t>& begins, T end_of_text, int32_t magic, int32_t version) {
    std::vector<T> tokens(9000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<T>(i);
    for (const size_t place : begins) tokens[place] = end_of_text;
    std::vector<std::vector<int32_t>> expected;
    for (const T token : tokens) {
      if (expected.empty() || token == end_of_text) expected.emplace_back();
      expected.back().push_back(static_cast<int32_t>(token));
    }
    test::write_file(folder / "a.bin", shard(tokens, magic, version));
    CHECK(documents_of(*open_documents(folder / "a.bin")) == expected);
  };
  for (const std::vector<size_t>& begins : places) {
    CAPTURE(begins);
    check(begins, uint16_t{50256}, gpt2, 1);
    check(begins, uint32_t{128000}, llama3, 7);
  }
}

TEST_CASE("a pattern names shards in the order of their names", "[data]") {
  const TemporaryFolder folder;
  test::write_file(folder / "train_000001.bin", shard(second, gpt2, 1));
  test::write_file(folder / "train_000000.bin", shard(first, gpt2, 1));
  test::write_file(folder / "val_000000.bin", shard<uint16_t>({9}, gpt2, 1));
  const LlmcDataset data(folder / "train_*.bin");
  CHECK(data.tokens() == 12);
  CHECK(documents_of(data) ==
        std::vector<std::vector<int32_t>>{{50256, 1, 2, 3}, {50256}, {50256, 4, 5}, {6, 7}, {50256, 8}});
  std::vector<int32_t> out(2);
  data.read(2, 1, 2, 60000, out.data());
  CHECK(out == std::vector<int32_t>{4, 5});
  CHECK(contains(error_of<DataError>([&] { LlmcDataset(folder / "nothing_*.bin"); }), "no file matches"));
  test::write_file(folder / "train_000002.bin", shard<uint32_t>({1}, llama3, 7));
  CHECK(contains(error_of<DataError>([&] { LlmcDataset(folder / "train_*.bin"); }), "train_000002.bin: its tokens"));
}

TEST_CASE("a name with the characters of patterns is a file or a folder where there is one", "[data]") {
  const TemporaryFolder folder;
  test::write_file(folder / "run [v2]/train_0.bin", shard(first, gpt2, 1));
  test::write_file(folder / "run [v2]/train_1.bin", shard(second, gpt2, 1));
  test::write_file(folder / "run 2/train_0.bin", shard<uint16_t>({9}, gpt2, 1));  // what the pattern would find
  CHECK(LlmcDataset(folder / "run [v2]/train_0.bin").tokens() == 8);
  CHECK(LlmcDataset(folder / "run [v2]/train_*.bin").tokens() == 12);
  CHECK(LlmcDataset(folder / "run [v2]/train_[1].bin").tokens() == 4);
  CHECK(LlmcDataset(folder / "run [1-3]/train_*.bin").tokens() == 1);  // no folder of this name
  for (const char* name : {"what?.bin", "a*b.bin", "[x].bin", "a\\[b].bin"}) {
    test::write_file(folder / name, shard<uint16_t>({7, 7, 7}, gpt2, 1));
    CHECK(LlmcDataset(folder / name).tokens() == 3);
  }
  test::write_file(folder / "back\\slash?/a.bin", shard(second, gpt2, 1));
  CHECK(LlmcDataset(folder / "back\\slash?/?.bin").tokens() == 4);
  CHECK(contains(error_of<DataError>([&] { LlmcDataset(folder / "run [v2]/none_*.bin"); }), "no file matches"));
}

TEST_CASE("samples are cut from token files as from Megatron pairs", "[data]") {
  const TemporaryFolder folder;
  std::vector<uint16_t> tokens;
  test::DocumentList documents;
  for (uint16_t i = 0; i < 500; ++i) {
    if (i % 23 == 0) documents.emplace_back(1, 50256), tokens.push_back(50256);
    documents.back().push_back(i);
    tokens.push_back(i);
  }
  test::write_file(folder / "llmc.bin", shard(tokens, gpt2, 1));
  test::write_dataset(folder / "pair", 60000, documents);
  GptDatasetOptions options;
  options.sequence = 16;
  options.vocabulary = 50257;
  options.samples = 70;
  options.prefix = folder / "pair";
  const GptDataset pair(options);
  options.prefix = folder / "llmc.bin";
  const GptDataset llmc(options);
  REQUIRE(llmc.size() == pair.size());
  bool same = true;
  for (int64_t k = 0; k < pair.size(); ++k) {
    std::vector<int32_t> a(32), b(32);
    pair.read(k, {a.data(), a.data() + 16});
    llmc.read(k, {b.data(), b.data() + 16});
    same = same && a == b;
  }
  CHECK(same);
  options.vocabulary = 50256;
  const GptDataset small(options);
  std::vector<int32_t> x(16), y(16);
  CHECK(contains(error_of<DataError>([&] {
                   for (int64_t k = 0; k < small.size(); ++k) small.read(k, {x.data(), y.data()});
                 }),
                 "is 50256; the model's vocabulary has 50256 ids"));
}

TEST_CASE("token files are told apart by any of their tokens, in any file", "[data]") {
  const TemporaryFolder folder;
  std::vector<uint16_t> tokens(20000, 7);
  const auto hash = [&](std::vector<uint16_t> one, std::vector<uint16_t> two) {
    test::write_file(folder / "t_0.bin", shard(one, gpt2, 1));
    test::write_file(folder / "t_1.bin", shard(two, gpt2, 1));
    return LlmcDataset(folder / "t_*.bin").xxh3();
  };
  const std::string same = hash(tokens, tokens);
  CHECK(hash(tokens, tokens) == same);
  for (const size_t place : {size_t{0}, size_t{4095}, size_t{4096}, size_t{12345}, size_t{19999}}) {
    INFO(place);
    std::vector<uint16_t> changed = tokens;
    changed[place] = 8;
    CHECK(hash(changed, tokens) != same);
    CHECK(hash(tokens, changed) != same);
  }
}

TEST_CASE("damaged token files are refused by name", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.bin", good = shard(first, gpt2, 1);
  const auto outcome = [&](const std::string& bytes) {
    test::write_file(path, bytes);
    return error_of<DataError>([&] { documents_of(*open_documents(path)); });
  };
  const auto with = [&](size_t at, int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, 4);
    return outcome(bytes);
  };
  CHECK(outcome(good).empty());
  for (size_t size = 0; size < good.size(); size += size < 1000 ? 100 : 1)
    CHECK(contains(outcome(good.substr(0, size)), path));
  for (size_t extra = 1; extra < 5; ++extra)
    CHECK(contains(outcome(good + std::string(extra, 'x')), "truncated or corrupt"));
  CHECK(contains(with(0, 20240522), "it starts with 20240522; legal are 20240520 (GPT-2) and 20240801"));
  CHECK(contains(with(4, 2), "version 2 of token files"));
  CHECK(contains(with(4, 7), "version 7"));
  CHECK(contains(with(0, llama3), "version 1"));
  for (const int32_t count : {-1, INT32_MIN, INT32_MAX, 0, 7, 9}) CHECK(contains(with(8, count), path));
  CHECK(contains(error_of<DataError>([&] { open_documents(folder / "none.bin"); }), folder / "none.bin"));
  // A Megatron pair named by its file.
  test::write_dataset(folder / "pair", 300, {std::vector<int32_t>(600, 1)});
  CHECK(contains(error_of<DataError>([&] { open_documents(folder / "pair.bin"); }), "name the prefix, without .bin"));
  // Ids that are no int32.
  test::write_file(path, shard<uint32_t>({1, 0xFFFFFFFFu}, llama3, 7));
  CHECK(contains(error_of<DataError>([&] { documents_of(*open_documents(path)); }), "token 1 is 4294967295"));
}

}  // namespace zrt::data_llmc_test
