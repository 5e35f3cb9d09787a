// Damaged datasets: every truncation and every flipped bit is refused with a DataError or reads as a valid dataset.
#include "catch.h"
#include "core/error.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_corruption_test {

using namespace zrt::runtime::data;
using test::contains;
using test::TemporaryFolder;
using zrt::core::DataError;

namespace {

constexpr size_t version_at = 9, type_at = 17, sequences_at = 18, bounds_at = 26, lengths_at = 34;

struct Pair {
  TemporaryFolder folder;
  std::string prefix = folder / "x", idx, bin;

  Pair() {
    test::write_dataset(prefix, 300, {{1, 2, 256}, {}, {5, 6, 7, 256}});
    idx = test::read_file(idx_path(prefix));
    bin = test::read_file(bin_path(prefix));
  }

  // The message of reading all of it; empty when it reads.
  std::string read(const std::string& idx_bytes, const std::string& bin_bytes) {
    test::write_file(idx_path(prefix), idx_bytes);
    test::write_file(bin_path(prefix), bin_bytes);
    return test::error_of<DataError>([&] { test::read_dataset(prefix, 300); });
  }

  template <class T>
  std::string with(size_t at, T value) {
    std::string changed = idx;
    std::memcpy(changed.data() + at, &value, sizeof(T));
    return read(changed, bin);
  }
};

}  // namespace

TEST_CASE("a missing file is named", "[data]") {
  Pair pair;
  std::filesystem::remove(bin_path(pair.prefix));
  const auto message = [&] { return test::error_of<DataError>([&] { IndexedDataset data(pair.prefix); }); };
  CHECK(contains(message(), bin_path(pair.prefix) + ": cannot be opened: No such file"));
  std::filesystem::create_directory(bin_path(pair.prefix));
  CHECK(contains(message(), bin_path(pair.prefix) + ": is not a regular file"));
  std::filesystem::remove(idx_path(pair.prefix));
  CHECK(contains(message(), idx_path(pair.prefix) + ": there is no such file. `zrt data build"));
}

TEST_CASE("every truncation of the index or of the tokens is refused by name", "[data]") {
  Pair pair;
  CHECK(pair.read(pair.idx, pair.bin).empty());
  for (size_t size = 0; size < pair.idx.size(); ++size) {
    INFO("index of " << size << " bytes");
    CHECK(contains(pair.read(pair.idx.substr(0, size), pair.bin), idx_path(pair.prefix)));
  }
  for (size_t size = 0; size < pair.bin.size(); ++size) {
    INFO("tokens of " << size << " bytes");
    CHECK(contains(pair.read(pair.idx, pair.bin.substr(0, size)), bin_path(pair.prefix) + ": the file is truncated"));
  }
  for (size_t extra = 1; extra < 20; ++extra) {
    CHECK(contains(pair.read(pair.idx + std::string(extra, '\0'), pair.bin), idx_path(pair.prefix)));
    CHECK(contains(pair.read(pair.idx, pair.bin + std::string(extra, '\0')), bin_path(pair.prefix)));
  }
}

TEST_CASE("no flipped bit of the index goes unnoticed or crashes", "[data]") {
  Pair pair;
  for (size_t bit = 0; bit < 8 * pair.idx.size(); ++bit) {
    std::string changed = pair.idx;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const std::string message = pair.read(changed, pair.bin);
    INFO("bit " << bit % 8 << " of byte " << bit / 8);
    // u16 and i16 read alike here, and a moved inner document bound is legal; all else contradicts something.
    const bool harmless = bit / 8 == type_at || bit / 8 >= pair.idx.size() - 24;
    CHECK((harmless || !message.empty()));
  }
}

TEST_CASE("flipped bits of the tokens read as other ids or are refused", "[data]") {
  Pair pair;
  for (size_t bit = 0; bit < 8 * pair.bin.size(); ++bit) {
    std::string changed = pair.bin;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const std::string message = pair.read(pair.idx, changed);
    CHECK((message.empty() || contains(message, "the model's vocabulary has 300 ids")));
  }
}

TEST_CASE("each field of the index is checked", "[data]") {
  Pair pair;
  CHECK(contains(pair.with<char>(0, 'X'), "not a dataset index"));
  CHECK(contains(pair.with<uint64_t>(version_at, 2), "format version 2 is not known"));
  CHECK(contains(pair.with<uint8_t>(type_at, 6), "code 6 is floating point"));
  CHECK(contains(pair.with<uint8_t>(type_at, 7), "code 7 is floating point"));
  CHECK(contains(pair.with<uint8_t>(type_at, 0), "code 0 is not known"));
  CHECK(contains(pair.with<uint8_t>(type_at, 9), "code 9 is not known"));
  for (const uint64_t huge : {uint64_t{1} << 60, ~uint64_t{0}, ~uint64_t{0} / 12 + 1, ~uint64_t{0} / 8 + 1}) {
    CHECK(contains(pair.with<uint64_t>(sequences_at, huge), "truncated or corrupt"));
    CHECK(contains(pair.with<uint64_t>(bounds_at, huge), "truncated or corrupt"));
  }
  CHECK(contains(pair.with<uint64_t>(bounds_at, 0), "corrupt"));
  CHECK(contains(pair.with<int32_t>(lengths_at, -1), "sequence 0 has length -1"));
  CHECK(contains(pair.with<int32_t>(lengths_at, 4), "sequence 1 starts at byte 6"));
  CHECK(contains(pair.with<int32_t>(lengths_at + 8, INT32_MAX), "the file is truncated"));
  CHECK(contains(pair.with<int64_t>(lengths_at + 12, INT64_MIN), "sequence 0 starts at byte -9223372036854775808"));
  CHECK(contains(pair.with<int64_t>(lengths_at + 20, 8), "sequence 1 starts at byte 8"));
  const size_t documents_at = lengths_at + 3 * 12;
  CHECK(contains(pair.with<int64_t>(documents_at, 1), "document bound 0 of 4 is 1"));
  CHECK(contains(pair.with<int64_t>(documents_at + 8, -1), "document bound 1 of 4 is -1"));
  CHECK(contains(pair.with<int64_t>(documents_at + 16, 4), "document bound 2 of 4 is 4"));
  CHECK(contains(pair.with<int64_t>(documents_at + 24, 2), "document bound 3 of 4 is 2"));
  CHECK(contains(pair.read(pair.idx + std::string(3, '\0'), pair.bin), "multimodal"));

  // No document bound at all: a header and nothing more.
  std::string empty = pair.idx.substr(0, lengths_at);
  std::memset(empty.data() + sequences_at, 0, 16);
  CHECK(contains(pair.read(empty, ""), "no document bounds"));
}

TEST_CASE("a dataset without documents is whole", "[data]") {
  Pair pair;
  test::write_dataset(pair.prefix, 300, {});
  CHECK(test::read_dataset(pair.prefix, 300).empty());
}

}  // namespace zrt::data_corruption_test
