// Samples that several documents share: data.documents "separate".
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "models/masking.h"
#include "runtime/data/best_fit.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/open_samples.h"
#include "runtime/data/packed_dataset.h"
#include "tests/runtime/data/counted_files.h"
#include "tests/runtime/data/data_samples.h"
#include "tests/seed.h"

namespace zrt::packed_samples_test {
namespace {

using namespace zrt::runtime::data;
using test::contains;
using test::DocumentList;
using test::error_of;
using test::TemporaryFolder;
using zrt::core::DataError;

constexpr int32_t none = models::not_counted, pad = 59999;
using Ids = std::vector<int32_t>;

GptDatasetOptions separate(const std::string& prefix, int64_t sequence, std::optional<int64_t> samples = {}) {
  GptDatasetOptions options = test::options_for(prefix, sequence, samples);
  options.documents = DocumentUse::separate;
  options.padding = pad;
  return options;
}

GptDatasetOptions in_order(GptDatasetOptions options) {
  options.order = Order::sequential;
  return options;
}

struct Sample {
  Ids tokens, targets, positions;
  bool operator==(const Sample&) const = default;
};

Sample read(const SampleSource& source, int64_t number) {
  // One word more on both sides shows a write outside.
  const auto S = static_cast<size_t>(source.sequence());
  Sample sample{Ids(S + 2, -7), Ids(S + 2, -7), Ids(S + 2, -7)};
  source.read(number, {sample.tokens.data() + 1, sample.targets.data() + 1, sample.positions.data() + 1});
  for (Ids* ids : {&sample.tokens, &sample.targets, &sample.positions}) {
    CHECK((ids->front() == -7 && ids->back() == -7));
    *ids = Ids(ids->begin() + 1, ids->end() - 1);
  }
  const test::Sample without = test::read(source, number);
  CHECK((without.tokens == sample.tokens && without.targets == sample.targets));
  return sample;
}

std::vector<Sample> read_all(const SampleSource& source, int64_t first, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(read(source, first + i));
  return samples;
}

std::vector<int32_t> random_lengths(std::mt19937& random, size_t count, uint32_t below) {
  std::vector<int32_t> lengths(count);
  for (int32_t& length : lengths) length = static_cast<int32_t>(random() % below);
  return lengths;
}

}  // namespace

TEST_CASE("documents share a sample, in the order of the file, and their positions begin anew", "[data]") {
  const TemporaryFolder folder;
  // Rows: 2, 0, 3, 0, 1, 4. The last has a sample of its own, the third takes the fifth, and the first stays alone.
  test::write_dataset(folder / "x", 60000, {{1, 2, 3}, {4}, {5, 6, 7, 8}, {}, {9, 10}, {11, 12, 13, 14, 15}});
  const PackedDataset data(in_order(separate(folder / "x", 4)));
  REQUIRE(data.size() == 3);
  CHECK(read(data, 0) == Sample{{1, 2, pad, pad}, {2, 3, none, none}, {0, 1, 0, 0}});
  CHECK(read(data, 1) == Sample{{5, 6, 7, 9}, {6, 7, 8, 10}, {0, 1, 2, 0}});
  CHECK(read(data, 2) == Sample{{11, 12, 13, 14}, {12, 13, 14, 15}, {0, 1, 2, 3}});
  CHECK((data.counted(0) == 2 && data.counted(1) == 4 && data.counted(2) == 4));
  CHECK((data.origin(1).document == 2 && data.origin(1).offset == 0));
  CHECK(data.fullness() ==
        std::vector{(folder / "x") + ": 3 samples of 4 tokens hold 4 documents; 16.7 % of their places are padding"});
  CHECK(data.left_out() == std::vector{(folder / "x") + ": 2 documents have no token that counts and are left out"});
  for (const int64_t number : {-1, 3}) {
    CHECK_THROWS_AS(data.origin(number), DataError);
    CHECK_THROWS_AS(data.counted(number), DataError);
  }
}

TEST_CASE("a document that is longer than a sample is cut into pieces which begin with the last target", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, {{1, 2, 3, 4, 5, 6, 7, 8}, {10, 11, 12}, {20, 21, 22, 23, 24, 25, 26}});
  const PackedDataset data(in_order(separate(folder / "x", 3)));
  REQUIRE(data.size() == 5);
  CHECK(read(data, 0) == Sample{{1, 2, 3}, {2, 3, 4}, {0, 1, 2}});
  CHECK(read(data, 1) == Sample{{4, 5, 6}, {5, 6, 7}, {0, 1, 2}});
  CHECK(read(data, 2) == Sample{{7, 10, 11}, {8, 11, 12}, {0, 0, 1}});
  CHECK(read(data, 3) == Sample{{20, 21, 22}, {21, 22, 23}, {0, 1, 2}});
  CHECK(read(data, 4) == Sample{{23, 24, 25}, {24, 25, 26}, {0, 1, 2}});
  CHECK((data.origin(2).document == 0 && data.origin(2).offset == 6));
  CHECK(data.fullness() ==
        std::vector{(folder / "x") + ": 5 samples of 3 tokens hold 3 documents; 0.0 % of their places are padding; 2 "
                                     "documents are longer than a sample and cut into pieces"});
  CHECK(data.left_out().empty());
}

TEST_CASE("an epoch has every target of every document once, and no document goes on behind another", "[data]") {
  std::mt19937 random(test::test_seed());
  const TemporaryFolder folder;
  const std::vector<int32_t> lengths = random_lengths(random, 200, 90);
  const DocumentList documents = test::distinct_documents(lengths);
  test::write_dataset(folder / "x", 60000, documents);
  std::map<int32_t, int32_t> before;  // by target: the token that predicts it
  std::set<int32_t> last;             // of each document
  int64_t rows = 0;
  for (const Ids& document : documents) {
    for (size_t i = 1; i < document.size(); ++i) before[document[i]] = document[i - 1];
    if (!document.empty()) last.insert(document.back()), rows += static_cast<int64_t>(document.size()) - 1;
  }
  for (const Order order : {Order::megatron, Order::sequential}) {
    for (const int64_t sequence : {1, 2, 17, 64, 500}) {
      INFO(sequence);
      GptDatasetOptions options = separate(folder / "x", sequence);
      options.order = order;
      const PackedDataset data(options);
      std::set<int32_t> targets;
      int64_t seen = 0, bad = 0;
      for (int64_t n = 0; n < data.size(); ++n) {
        const Sample sample = read(data, n);
        for (size_t i = 0; i < sample.tokens.size(); ++i) {
          const int32_t token = sample.tokens[i], position = sample.positions[i];
          if (sample.targets[i] == none) {
            bad += token != pad || position != 0 ? 1 : 0;
            continue;
          }
          ++seen;
          targets.insert(sample.targets[i]);
          const auto predicts = before.find(sample.targets[i]);
          bad += predicts == before.end() || predicts->second != token ? 1 : 0;
          bad += position >= sequence ? 1 : 0;
          // A position that goes on does so from the token before it in its document.
          if (position > 0) bad += i == 0 || sample.targets[i - 1] != token || sample.positions[i - 1] != position - 1;
          if (position == 0 && i > 0 && sample.targets[i - 1] == token) bad += 1;  // a document was cut within a sample
        }
      }
      CHECK(bad == 0);
      CHECK(seen == rows);
      CHECK(static_cast<int64_t>(targets.size()) == rows);
    }
  }
}

TEST_CASE("samples are those of best fit decreasing, and an epoch has as many in any order", "[data]") {
  std::mt19937 random(test::test_seed());
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, test::distinct_documents(random_lengths(random, 300, 70)));
  const PackedDataset data(in_order(separate(folder / "x", 64))), shuffled(separate(folder / "x", 64));
  std::vector<PackedDataset::Piece> pieces;
  for (int64_t i = 0; i < data.size(); ++i)
    for (const auto& piece : data.pieces(i)) pieces.push_back(piece);
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) {
    return std::pair(a.document, a.offset) < std::pair(b.document, b.offset);
  });
  std::vector<int32_t> rows;
  for (const auto& piece : pieces) rows.push_back(piece.rows);
  const Packing packing = best_fit(rows, 64);
  REQUIRE(packing.count == data.size());
  CHECK(shuffled.size() == data.size());
  std::map<int64_t, int64_t> sample_of;  // by bin, in the order of their first pieces
  std::vector<size_t> taken(static_cast<size_t>(data.size()), 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto next = static_cast<int64_t>(sample_of.size());
    const int64_t sample = sample_of.try_emplace(packing.bins[i], next).first->second;
    const auto held = data.pieces(sample);
    const size_t place = taken[static_cast<size_t>(sample)]++;
    REQUIRE(place < held.size());
    CHECK((held[place].document == pieces[i].document && held[place].offset == pieces[i].offset));
  }
}

TEST_CASE("every packed epoch has samples of its own that no number of samples changes", "[data]") {
  const TemporaryFolder folder;
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 60; ++i) lengths.push_back(2 + i % 11);
  test::write_dataset(folder / "x", 60000, test::distinct_documents(lengths));
  const PackedDataset one(separate(folder / "x", 24));
  const int64_t epoch = one.size();
  REQUIRE(epoch > 10);
  const PackedDataset three(separate(folder / "x", 24, 2 * epoch + 1)), many(separate(folder / "x", 24, 50 * epoch));
  CHECK((three.size() == 3 * epoch && many.size() == 50 * epoch));
  CHECK(PackedDataset(separate(folder / "x", 24, 2 * epoch)).size() == 2 * epoch);
  CHECK(PackedDataset(separate(folder / "x", 24, 0)).size() == epoch);
  const std::vector<Sample> all = read_all(three, 0, 3 * epoch);
  CHECK(read_all(many, 0, 3 * epoch) == all);
  CHECK(read_all(one, 0, epoch) == std::vector<Sample>(all.begin(), all.begin() + epoch));
  CHECK(one.left_out() == many.left_out());

  // Epochs differ in which documents share a sample, not in the order of samples alone.
  const auto sets = [&](int64_t number) {
    std::set<Ids> tokens;
    for (const Sample& sample : read_all(three, number * epoch, epoch)) {
      Ids sorted = sample.tokens;
      std::sort(sorted.begin(), sorted.end());
      tokens.insert(sorted);
    }
    return tokens;
  };
  CHECK((sets(0) != sets(1) && sets(1) != sets(2) && sets(0) != sets(2)));
  GptDatasetOptions other = separate(folder / "x", 24);
  other.seed = 7;
  CHECK(read_all(PackedDataset(other), 0, epoch) != read_all(one, 0, epoch));
}

TEST_CASE("samples of an epoch are shuffled, whatever the lengths of their documents", "[data]") {
  // In the order of their first documents, samples of several would come before those of one, because the first of
  // several comes early.
  const TemporaryFolder folder;
  std::vector<int32_t> lengths(100, 9);
  lengths.insert(lengths.end(), 100, 6);
  lengths.insert(lengths.end(), 300, 2);
  test::write_dataset(folder / "x", 60000, test::distinct_documents(lengths));
  const PackedDataset data(separate(folder / "x", 8));
  REQUIRE(data.size() == 200);
  int alone = 0;
  for (int64_t i = 150; i < 200; ++i) alone += data.pieces(i).size() == 1 ? 1 : 0;
  CHECK((alone > 10 && alone < 40));
}

TEST_CASE("pieces without a target that counts are left out, and of others those that count do", "[data]") {
  const TemporaryFolder folder;
  test::write_counted(folder / "x", 60000, {{1, 2, 3, 4, 5, 6, 7}, {10, 11, 12}, {20, 21}, {30, 31, 32}},
                      {{1, 0, 0, 0, 1, 0, 1}, {1, 0, 0}, {0, 1}, {1, 1, 0}});
  const PackedDataset data(in_order(separate(folder / "x", 3)));
  // The first three targets of the first document do not count, nor does any of the second.
  REQUIRE(data.size() == 2);
  CHECK(read(data, 0) == Sample{{4, 5, 6}, {5, none, 7}, {0, 1, 2}});
  CHECK(read(data, 1) == Sample{{20, 30, 31}, {21, 31, none}, {0, 0, 1}});
  CHECK((data.counted(0) == 2 && data.counted(1) == 2));
  CHECK(data.fullness() ==
        std::vector{(folder / "x") + ": 2 samples of 3 tokens hold 3 documents; 0.0 % of their places are padding; 1 "
                                     "document is longer than a sample and cut into pieces"});
  CHECK(data.left_out() ==
        std::vector{(folder / "x") + ": 1 piece of a document has no token that counts and is left out; 1 document has "
                                     "no token that counts and is left out"});
}

TEST_CASE("what counts in a packed sample is as many as its targets, in blends too", "[data]") {
  std::mt19937 random(test::test_seed());
  const TemporaryFolder folder;
  const DocumentList documents = test::distinct_documents(random_lengths(random, 80, 60));
  DocumentList counts = documents;
  for (Ids& document : counts)
    for (int32_t& count : document) count = random() % 3 == 0 ? 1 : 0;
  test::write_counted(folder / "x", 60000, documents, counts);
  test::write_dataset(folder / "plain", 60000, documents);
  for (const char* name : {"x", "plain", ""}) {
    for (const int64_t sequence : {1, 13, 64}) {
      INFO(name << ", " << sequence);
      const std::unique_ptr<SampleSource> source =
          *name != 0 ? open_samples(separate(folder / name, sequence, 100))
                     : open_training_data({{1, folder / "x"}, {2, folder / "plain"}}, 90, separate("", sequence));
      for (int64_t i = 0; i < source->size(); ++i) {
        const Sample sample = read(*source, i);
        CHECK(source->counted(i) ==
              std::count_if(sample.targets.begin(), sample.targets.end(), [](int32_t target) { return target >= 0; }));
        CHECK(source->counted(i) > 0);
      }
      CHECK(source->left_out().size() == (*name != 0 ? 1 : 2));
    }
  }
}

TEST_CASE("packed samples of a part of data.split have documents of that part alone", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, test::distinct_documents(std::vector<int32_t>(20, 5)));
  GptDatasetOptions options = in_order(separate(folder / "x", 8));
  options.split = "3,1", options.part = 1;
  const PackedDataset held(options);
  REQUIRE(held.size() == 3);
  for (int64_t i = 0; i < 3; ++i) CHECK(held.origin(i).document == 15 + 2 * i);
}

TEST_CASE("what cannot be packed is refused", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "short", 60000, {{1}, {}, {2}});
  test::write_counted(folder / "none", 60000, {{1, 2, 3, 4}}, {{1, 0, 0, 0}});
  test::write_dataset(folder / "x", 60000, {{1, 2, 3}});
  CHECK(contains(error_of<DataError>([&] { PackedDataset data(separate(folder / "short", 4)); }),
                 "short.bin: none of its 3 documents has a token behind its first that counts"));
  CHECK(contains(error_of<DataError>([&] { PackedDataset data(separate(folder / "none", 4)); }),
                 "none of its 1 documents has a token behind its first that counts"));
  for (const int64_t sequence : {int64_t{0}, (int64_t{1} << 24) + 1})
    CHECK(contains(error_of<core::ConfigError>([&] { PackedDataset data(separate(folder / "x", sequence)); }),
                   "legal are 0 or more of 1 to 2^24"));
  CHECK(contains(error_of<core::ConfigError>([&] { PackedDataset data(separate(folder / "x", 4, -1)); }),
                 "-1 samples of 4 tokens were asked for"));
  CHECK(contains(error_of<DataError>([&] { PackedDataset data(separate(folder / "x", 4, (int64_t{1} << 40) + 1)); }),
                 "are more than 2^40"));
  GptDatasetOptions small = separate(folder / "x", 4);
  small.vocabulary = 3;
  const PackedDataset data(small);
  CHECK_THROWS_AS(test::read(data, 0), DataError);
}

}  // namespace zrt::packed_samples_test
