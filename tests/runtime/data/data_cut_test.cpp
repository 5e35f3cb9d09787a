// Token files that are cut while a run reads them: an error, never zeros and never the process's end.
#include <algorithm>
#include <cstring>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/gpt_dataset.h"
#include "runtime/data/llmc_dataset.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_cut_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using zrt::core::DataError;

namespace {

constexpr int64_t tokens = 20000;

std::vector<int32_t> ids() {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < tokens; ++i) all.push_back(static_cast<int32_t>(1 + i % 255));
  return all;
}

void write_llmc(const std::string& path) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = tokens;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  for (const int32_t id : ids()) {
    const auto small = static_cast<uint16_t>(id);
    bytes.append(reinterpret_cast<const char*>(&small), 2);
  }
  test::write_file(path, bytes);
}

GptDataset open(const std::string& prefix) {
  GptDatasetOptions options;
  options.prefix = prefix, options.sequence = 64, options.vocabulary = 50257, options.order = Order::sequential;
  return GptDataset(options);
}

// Reads every sample, of which none has a zero.
std::string read_all(const GptDataset& data) {
  std::vector<int32_t> x(64), y(64);
  bool zero = false;
  const std::string message = error_of<DataError>([&] {
    for (int64_t n = 0; n < data.size(); ++n) {
      data.read(n, {x.data(), y.data()});
      zero = zero || std::count(x.begin(), x.end(), 0) + std::count(y.begin(), y.end(), 0) > 0;
    }
  });
  return zero ? "a zero was read" : message;
}

}  // namespace

TEST_CASE("a dataset that is cut while it is read is an error that names the file and the byte", "[data]") {
  const TemporaryFolder folder;
  for (const bool llmc : {false, true}) {
    const std::string bin = folder / "x.bin", prefix = llmc ? bin : folder / "x";
    const auto restore = [&] { llmc ? write_llmc(bin) : test::write_dataset(prefix, 300, {ids()}); };
    restore();
    const GptDataset data = open(prefix);
    const auto whole = std::filesystem::file_size(bin);
    CHECK(read_all(data).empty());
    // The file is cut within a page, at the end of one, and wholly.
    for (const uintmax_t size : {whole - 101, whole - 3000, uintmax_t{8192}, uintmax_t{4095}, uintmax_t{0}}) {
      std::filesystem::resize_file(bin, size);
      std::vector<std::string> messages(4);
      std::vector<std::thread> readers;
      for (std::string& message : messages) readers.emplace_back([&] { message = read_all(data); });
      for (std::thread& reader : readers) reader.join();
      for (const std::string& message : messages) {
        INFO(message);
        CHECK(message.find(bin + ": ends at byte " + std::to_string(size) + ", before byte ") == 0);
        CHECK(contains(message, "it had " + std::to_string(whole) + " bytes when it was opened"));
      }
    }
  }
}

TEST_CASE("an index that is cut or deleted after it was opened changes nothing", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 300, {ids()});
  const GptDataset data = open(folder / "x");
  std::filesystem::resize_file(idx_path(folder / "x"), 3);
  CHECK(read_all(data).empty());
  std::filesystem::remove(idx_path(folder / "x"));
  std::filesystem::remove(bin_path(folder / "x"));
  CHECK(read_all(data).empty());
}

TEST_CASE("the hash of a dataset tells one index from another, and token files by their tokens", "[data]") {
  const TemporaryFolder folder;
  const auto facts = [&](const test::DocumentList& documents) {
    test::write_dataset(folder / "x", 300, documents);
    GptDatasetOptions options;
    options.prefix = folder / "x", options.sequence = 2, options.vocabulary = 300;
    return GptDataset(options).datasets().at(0);
  };
  const DatasetFacts one = facts({{1, 2, 3}, {4, 5}});
  CHECK((one.prefix == folder / "x" && one.documents == 2 && one.tokens == 5));
  CHECK(one.xxh3 == facts({{1, 2, 3}, {4, 5}}).xxh3);
  CHECK(one.xxh3 != facts({{1, 2}, {3, 4, 5}}).xxh3);
  CHECK(one.xxh3 != facts({{1, 2, 3}, {4, 5}, {}}).xxh3);

  // Two sequences of one document instead of two documents.
  std::string index = test::read_file(idx_path(folder / "x"));
  const int64_t bound = 3;
  std::memcpy(index.data() + index.size() - 2 * 8, &bound, sizeof bound);
  test::write_file(idx_path(folder / "x"), index);
  const std::string joined = IndexedDataset(folder / "x").xxh3();
  CHECK(joined != facts({{1, 2, 3}, {4, 5}, {}}).xxh3);

  write_llmc(folder / "x.bin");
  const std::string first = LlmcDataset(folder / "x.bin").xxh3();
  CHECK(first == LlmcDataset(folder / "x.bin").xxh3());
  std::string bytes = test::read_file(folder / "x.bin");
  bytes[1024 + 20000] ^= 1;
  test::write_file(folder / "x.bin", bytes);
  CHECK(first != LlmcDataset(folder / "x.bin").xxh3());
}

}  // namespace zrt::data_cut_test
