// Masks that say which tokens of a dataset count.
#include "runtime/data/token_mask.h"

#include <algorithm>
#include <random>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/data/counted_files.h"
#include "tests/seed.h"

namespace zrt::token_mask_test {
namespace {

using namespace zrt::runtime::data;
using test::contains;
using test::DocumentList;
using test::error_of;
using test::read_file;
using test::TemporaryFolder;
using test::write_counted;
using test::write_file;
using zrt::core::DataError;

}  // namespace

TEST_CASE("what counts in any range is what its bytes say", "[data]") {
  std::mt19937 random(test::test_seed());
  const TemporaryFolder folder;
  DocumentList documents, counts;
  for (const int length : {0, 1, 63, 64, 65, 511, 512, 513, 0, 5000, 7}) {
    documents.emplace_back(static_cast<size_t>(length), 1);
    counts.emplace_back();
    for (int i = 0; i < length; ++i) counts.back().push_back(random() % 3 == 0 ? 1 : 0);
  }
  write_counted(folder / "x", 10, documents, counts);
  const auto data = open_documents(folder / "x");
  const TokenMask& mask = *data->mask();
  int64_t all = 0;
  for (size_t d = 0; d < counts.size(); ++d) {
    const auto length = static_cast<int64_t>(counts[d].size());
    all += std::count(counts[d].begin(), counts[d].end(), 1);
    for (int64_t i = 0; i < length; ++i)
      if (mask.counts(static_cast<int64_t>(d), i) != (counts[d][static_cast<size_t>(i)] != 0)) FAIL(d << " " << i);
    for (int k = 0; k < 300; ++k) {
      const int64_t from = length == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint32_t>(length + 1));
      const int64_t count = static_cast<int64_t>(random() % static_cast<uint32_t>(length - from + 1));
      const auto begin = counts[d].begin() + from;
      if (mask.counted(static_cast<int64_t>(d), from, count) != std::count(begin, begin + count, 1))
        FAIL(d << ": " << count << " from " << from);
    }
  }
  CHECK(mask.counted() == all);
}

TEST_CASE("a mask of more than one chunk of its file is read whole", "[data]") {
  const TemporaryFolder folder;
  DocumentList documents, counts;
  for (int d = 0; d < 3; ++d) {
    documents.emplace_back(1000003, 1);
    counts.emplace_back(1000003, 0);
    for (size_t i = static_cast<size_t>(d); i < counts.back().size(); i += 7) counts.back()[i] = 1;
  }
  write_counted(folder / "x", 10, documents, counts);
  const auto data = open_documents(folder / "x");
  for (int64_t d = 0; d < 3; ++d) {
    bool same = true;
    for (int64_t i = 0; i < 1000003; ++i)
      same = same && data->mask()->counts(d, i) == (counts[static_cast<size_t>(d)][static_cast<size_t>(i)] != 0);
    CHECK(same);
  }
}

TEST_CASE("counts that do not fit are refused by file and place", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x", idx = prefix + ".counts.idx", bin = prefix + ".counts.bin";
  const auto refusal = [&] { return error_of<DataError>([&] { open_documents(prefix); }); };
  const auto write = [&] { write_counted(prefix, 10, {{1, 2, 3}, {4, 5}}, {{0, 1, 1}, {0, 1}}, 3); };
  write();
  CHECK(refusal().empty());
  CHECK(open_documents(prefix)->mask()->xxh3() != "");

  std::string bytes = read_file(bin);
  bytes[3] = 7;
  write_file(bin, bytes);
  CHECK(contains(refusal(), bin + ": byte 3 is 7; legal are 1, where a token counts, and 0."));
  bytes[3] = 1;
  write_file(bin, bytes);
  CHECK(contains(refusal(), idx + ": 4 tokens count, but " + prefix + ".meta.json says that 3 tokens count."));
  write();
  std::filesystem::remove(idx);
  CHECK(contains(refusal(), idx + ": there is no such file, but " + prefix + ".meta.json says that 3 tokens count."));
  write();
  std::filesystem::remove(bin);
  CHECK(contains(refusal(), bin));
  write();
  test::write_dataset(folder / "y", 2, {{0, 1, 1}, {0, 1}});
  std::filesystem::copy_file(folder / "y.idx", idx, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(folder / "y.bin", bin, std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(refusal(), idx + ": its type has the code 8; which tokens count is said by bytes (1, u8)."));
  // The pair is one of other documents.
  write_counted(folder / "z", 10, {{1, 2}, {3, 4, 5}}, {{0, 1}, {1, 0, 1}});
  std::filesystem::copy_file(folder / "z.counts.idx", idx, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(folder / "z.counts.bin", bin, std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(refusal(), idx + ": sequence 0 has 2 tokens but 3 in " + prefix + ".bin"));
  write_counted(folder / "z", 10, {{1, 2, 3, 4, 5}}, {{0, 1, 1, 0, 1}});
  std::filesystem::copy_file(folder / "z.counts.idx", idx, std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(refusal(), idx + ": it has 1 sequences but " + prefix + ".bin has 2"));
}

TEST_CASE("no changed byte of the counts' files goes unnoticed or crashes", "[data]") {
  const TemporaryFolder folder;
  const std::string prefix = folder / "x";
  write_counted(prefix, 10, {{1, 2, 3}, {4, 5}}, {{0, 1, 1}, {0, 1}}, 3);
  for (const char* end : {".counts.idx", ".counts.bin"}) {
    const std::string good = read_file(prefix + end);
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int change : {1, 2, 128, 255}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ change);
        write_file(prefix + end, bad);
        // Bounds of documents are not asked for.
        if (error_of<DataError>([&] { open_documents(prefix); }).empty()) CHECK(i >= 34 + 12 * 2);
      }
      write_file(prefix + end, good.substr(0, i));
      CHECK(error_of<DataError>([&] { open_documents(prefix); }) != "");
    }
    write_file(prefix + end, good);
  }
}

}  // namespace zrt::token_mask_test
