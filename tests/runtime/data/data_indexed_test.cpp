// The indexed dataset: bytes of the writer, types and limits of the reader, replacement of old files.
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_indexed_test {

using namespace zrt::runtime::data;
using test::contains;
using test::DocumentList;
using test::error_of;
using test::read_file;
using test::TemporaryFolder;
using zrt::core::DataError;

namespace {

const DocumentList small = {{1, 2, 256}, {256}, {65499, 0, 7, 8, 256}};
const DocumentList large = {{70000, 1}, {2147483647, 5, 0}};
const std::string golden = zrt::test::data_folder() + "/dataset_golden/";

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// One sequence of the given type, written without the writer.
template <class T>
void write_typed(const std::string& prefix, uint8_t code, const std::vector<T>& values) {
  test::write_file(bin_path(prefix), bytes_of(values));
  std::string idx(magic, magic_bytes);
  idx += bytes_of(std::vector<uint64_t>{1}) + static_cast<char>(code) + bytes_of(std::vector<uint64_t>{1, 2});
  idx += bytes_of(std::vector<int32_t>{static_cast<int32_t>(values.size())}) + bytes_of(std::vector<int64_t>{0, 0, 1});
  test::write_file(idx_path(prefix), idx);
}

}  // namespace

TEST_CASE("the writer makes Megatron's bytes", "[data]") {
  const TemporaryFolder folder;
  const auto same = [&](const char* name, int64_t vocabulary, const DocumentList& documents) {
    test::write_dataset(folder / name, vocabulary, documents);
    CHECK(read_file(bin_path(folder / name)) == read_file(bin_path(golden + name)));
    CHECK(read_file(idx_path(folder / name)) == read_file(idx_path(golden + name)));
    CHECK(test::read_dataset(golden + name, vocabulary) == documents);
  };
  // 65,500 ids are the first that Megatron stores as i32, though u16 could hold them.
  same("i32", int64_t{1} << 31, large);
  CHECK(token_type_for(65499) == TokenType::u16);
  CHECK(token_type_for(65500) == TokenType::i32);
  test::write_dataset(folder / "edge", 65500, small);
  CHECK(IndexedDataset(folder / "edge").type() == TokenType::i32);
  DocumentList below = small;
  below[2][0] = 65498;
  test::write_dataset(folder / "below", 65499, below);
  std::string expected = read_file(bin_path(golden + "u16"));
  expected[8] = static_cast<char>(expected[8] - 1);  // 65499 became 65498
  CHECK(read_file(bin_path(folder / "below")) == expected);
  CHECK(read_file(idx_path(folder / "below")) == read_file(idx_path(golden + "u16")));
  CHECK(test::read_dataset(golden + "u16", 65500) == small);
}

TEST_CASE("tokens stream into a document in pieces of any size", "[data]") {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens(1 << 20);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 2654435761u % 60000);
  IndexedDatasetWriter writer(folder / "x", 60000);
  for (size_t at = 0, piece = 1; at < tokens.size(); at += piece, piece = piece * 3 + 1)
    writer.append(std::span(tokens).subspan(at, std::min(piece, tokens.size() - at)));
  writer.end_document();
  writer.end_document();  // an empty one
  writer.seal();
  writer.publish();
  CHECK(test::read_dataset(folder / "x", 60000) == DocumentList{tokens, {}});
  const IndexedDataset data(folder / "x");
  CHECK(data.tokens() == 1 << 20);
  CHECK(data.documents() == 2);
  std::vector<int32_t> part(5);
  data.read(0, 777, 5, 60000, part.data());
  CHECK(part == std::vector<int32_t>(tokens.begin() + 777, tokens.begin() + 782));
}

TEST_CASE("every integer type is read", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x";
  const DocumentList expected = {{0, 100, 127}};
  write_typed<uint8_t>(prefix, 1, {0, 100, 127});
  CHECK(test::read_dataset(prefix, 128) == expected);
  write_typed<int8_t>(prefix, 2, {0, 100, 127});
  CHECK(test::read_dataset(prefix, 128) == expected);
  write_typed<int16_t>(prefix, 3, {0, 100, 127});
  CHECK(test::read_dataset(prefix, 128) == expected);
  write_typed<int32_t>(prefix, 4, {0, 100, 127});
  CHECK(test::read_dataset(prefix, 128) == expected);
  write_typed<int64_t>(prefix, 5, {0, 100, 127});
  CHECK(test::read_dataset(prefix, 128) == expected);
  write_typed<uint16_t>(prefix, 8, {0, 100, 65535});
  CHECK(test::read_dataset(prefix, 65536) == DocumentList{{0, 100, 65535}});
}

TEST_CASE("a token outside the vocabulary is reported with file and position", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x";
  const auto message = [&] { return error_of<DataError>([&] { test::read_dataset(prefix, 100); }); };
  write_typed<uint16_t>(prefix, 8, {0, 99, 100, 3});
  CHECK(contains(message(), bin_path(prefix) + ": token 2 of sequence 0 (byte 4) is 100;"));
  write_typed<int8_t>(prefix, 2, {0, -1});
  CHECK(contains(message(), "token 1 of sequence 0 (byte 1) is -1;"));
  // Its low half is a legal id.
  write_typed<int64_t>(prefix, 5, {0, (int64_t{1} << 32) + 5});
  CHECK(contains(message(), "token 1 of sequence 0 (byte 8) is 4294967301;"));
  write_typed<int64_t>(prefix, 5, {std::numeric_limits<int64_t>::min()});
  CHECK(contains(message(), "is -9223372036854775808;"));

  const IndexedDataset data(golden + "u16");
  std::vector<int32_t> out(8);
  CHECK_THROWS_AS(data.read(0, 0, 4, 65500, out.data()), DataError);
  CHECK_THROWS_AS(data.read(0, 4, 0, 65500, out.data()), DataError);
  CHECK_THROWS_AS(data.read(0, -1, 1, 65500, out.data()), DataError);
  CHECK_THROWS_AS(data.read(3, 0, 1, 65500, out.data()), DataError);
  CHECK_THROWS_AS(data.read(-1, 0, 1, 65500, out.data()), DataError);
  data.read(0, 3, 0, 65500, out.data());
}

TEST_CASE("the writer refuses what the format cannot hold", "[data]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(IndexedDatasetWriter(folder / "x", 0), DataError);
  CHECK_THROWS_AS(IndexedDatasetWriter(folder / "x", (int64_t{1} << 31) + 1), DataError);
  CHECK_THROWS_AS(IndexedDatasetWriter(folder.path() + "/", 10), DataError);
  test::write_file(folder / "file", "");
  CHECK_THROWS_AS(IndexedDatasetWriter(folder / "file/x", 10), DataError);
  IndexedDatasetWriter writer(folder / "x", 10);
  const std::vector<int32_t> bad = {1, 10}, negative = {-1};
  CHECK(contains(error_of<DataError>([&] { writer.append(bad); }), "token id 10"));
  CHECK_THROWS_AS(writer.append(negative), DataError);
  writer.append(std::vector<int32_t>{1});
  CHECK_THROWS_AS(writer.seal(), DataError);  // the document is open
}

TEST_CASE("an unfinished writer leaves the old dataset as it was", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "sub/x";
  test::write_dataset(prefix, 300, {{1, 2, 3}});
  {
    IndexedDatasetWriter writer(prefix, 300);
    writer.append(std::vector<int32_t>(100000, 7));
    writer.end_document();
    writer.seal();
    CHECK(test::read_dataset(prefix, 300) == DocumentList{{1, 2, 3}});
    CHECK_THROWS_AS(IndexedDatasetWriter(prefix, 300), DataError);  // one writer at a time
  }
  CHECK(test::read_dataset(prefix, 300) == DocumentList{{1, 2, 3}});
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "sub")) ++files;
  CHECK(files == 2);
}

TEST_CASE("a description is written with a dataset and vanishes with it", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x";
  CHECK(!read_meta(prefix));
  const DatasetMeta meta = {"bytes", 257, 1, 3, 2, 0.5};
  {
    IndexedDatasetWriter writer(prefix, 257);
    writer.append(std::vector<int32_t>{1, 2, 256});
    writer.end_document();
    writer.seal(meta);
    writer.publish();
  }
  const auto found = read_meta(prefix);
  REQUIRE(found);
  CHECK(found->tokenizer == "bytes");
  CHECK(found->vocabulary == 257);
  CHECK(found->documents == 1);
  CHECK(found->tokens == 3);
  CHECK(found->bytes == 2);
  CHECK(found->unigram_entropy == 0.5);

  test::write_dataset(prefix, 257, {{4}});  // a pair without description must not keep the old one
  CHECK(!read_meta(prefix));
}

TEST_CASE("a bad description is refused by key", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x", path = meta_path(prefix), good = to_json({"bytes", 257, 1, 3, 2, 0.5});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    test::write_file(path, text);
    return error_of<DataError>([&] { read_meta(prefix); });
  };
  CHECK(with("257", "257").empty());
  CHECK(contains(with("257", "-1"), "'vocabulary' is -1"));
  CHECK(contains(with("257", "1e99"), "'vocabulary'"));
  CHECK(contains(with("257", "18446744073709551615"), "'vocabulary'"));
  CHECK(contains(with("\"bytes\",", "3,"), "'tokenizer' is 3"));
  CHECK(contains(with("\"tokens\"", "\"other\""), "'tokens' is missing"));
  CHECK(contains(with("0.5", "9"), "'unigram_entropy' is 9"));
  CHECK(contains(with("0.5", "null"), "'unigram_entropy'"));
  CHECK(contains(with("{", "["), "not a JSON object"));
  test::write_file(path, "");
  CHECK(contains(error_of<DataError>([&] { read_meta(prefix); }), path));
}

}  // namespace zrt::data_indexed_test
