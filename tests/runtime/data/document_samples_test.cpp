// Samples of one document each, and targets that do not count.
#include <algorithm>
#include <random>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "models/masking.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/open_samples.h"
#include "tests/runtime/data/counted_files.h"
#include "tests/runtime/data/data_samples.h"
#include "tests/seed.h"

namespace zrt::document_samples_test {
namespace {

using namespace zrt::runtime::data;
using test::contains;
using test::DocumentList;
using test::error_of;
using test::options_for;
using test::TemporaryFolder;
using test::write_counted;
using zrt::core::DataError;

constexpr int32_t none = models::not_counted;
using Ids = std::vector<int32_t>;

GptDatasetOptions alone_options(const std::string& prefix, int64_t sequence, std::optional<int64_t> samples = {}) {
  GptDatasetOptions options = options_for(prefix, sequence, samples);
  options.documents = DocumentUse::alone;
  options.padding = 59999;
  return options;
}

GptDatasetOptions in_order(GptDatasetOptions options) {
  options.order = Order::sequential;
  return options;
}

DocumentList random_counts(const DocumentList& documents, std::mt19937& random) {
  DocumentList counts;
  for (const auto& document : documents) {
    counts.emplace_back();
    bool on = false;
    for (size_t i = 0; i < document.size(); ++i) {
      if (random() % 5 == 0) on = !on;
      counts.back().push_back(on ? 1 : 0);
    }
  }
  return counts;
}

void check_counted(const SampleSource& source) {
  for (int64_t i = 0; i < source.size(); ++i) {
    const test::Sample sample = test::read(source, i);
    INFO("sample " << i);
    CHECK(source.counted(i) ==
          std::count_if(sample.targets.begin(), sample.targets.end(), [](int32_t target) { return target >= 0; }));
  }
}

// The documents of the samples [first, first + count).
std::vector<int64_t> documents_of(const SampleSource& source, int64_t first, int64_t count) {
  std::vector<int64_t> documents;
  for (int64_t i = 0; i < count; ++i) documents.push_back(source.origin(first + i).document);
  return documents;
}

}  // namespace

TEST_CASE("a document alone is cut at the end of its sample, or padded without targets", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000,
                      {{1, 2}, {3}, {4, 5, 6, 7, 8}, {10, 11, 12, 13}, {}, {20, 21, 22, 23, 24, 25}});
  const DocumentDataset data(in_order(alone_options(folder / "x", 4)));
  REQUIRE(data.size() == 4);
  const int32_t pad = 59999;
  const std::vector<Ids> tokens{{1, pad, pad, pad}, {4, 5, 6, 7}, {10, 11, 12, 13}, {20, 21, 22, 23}},
      targets{{2, none, none, none}, {5, 6, 7, 8}, {11, 12, 13, none}, {21, 22, 23, 24}};
  // The last token of a document that is no longer than a sample is an input, too, and has no target.
  for (int64_t i = 0; i < 4; ++i) {
    const test::Sample sample = test::read(data, i);
    INFO(i);
    if (i != 0) CHECK(sample.tokens == tokens[static_cast<size_t>(i)]);
    CHECK(sample.targets == targets[static_cast<size_t>(i)]);
  }
  CHECK(test::read(data, 0).tokens == Ids{1, 2, pad, pad});
  CHECK((data.documents() == 4 && data.without_target() == 2 && data.cut() == 1 && data.cut_tokens() == 1));
  CHECK(data.left_out() ==
        std::vector<std::string>{
            (folder / "x") + ": 1 of 4 documents are longer than a sample (model.sequence 4) and are cut: 1 tokens are "
                             "not read; 2 documents have no token that counts within a sample and are left out"});
  CHECK((data.origin(1).document == 2 && data.origin(1).offset == 0));
  CHECK_THROWS_AS(data.origin(4), DataError);
  check_counted(data);
  CHECK(DocumentDataset(in_order(alone_options(folder / "x", 6))).left_out().size() == 1);
}

TEST_CASE("targets that do not count are left out of a sample, and documents without one", "[data]") {
  const TemporaryFolder folder;
  write_counted(folder / "x", 60000, {{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10}, {11, 12, 13}, {14, 15, 16, 17, 18}},
                {{1, 0, 1, 0}, {0, 0, 0, 0, 0, 1}, {1, 0, 0}, {0, 0, 0, 1, 1}});
  const DocumentDataset data(in_order(alone_options(folder / "x", 4)));
  // The second counts behind its sample alone, the third at its first token, which is no target.
  REQUIRE(data.size() == 2);
  CHECK(test::read(data, 0).tokens == Ids{1, 2, 3, 4});
  CHECK(test::read(data, 0).targets == Ids{none, 3, none, none});
  CHECK(test::read(data, 1).targets == Ids{none, none, 17, 18});
  CHECK(data.without_target() == 2);
  CHECK((data.counted(0) == 1 && data.counted(1) == 2));

  // Joined, the same targets count.
  const GptDataset joined(in_order(options_for(folder / "x", 4)));
  REQUIRE(joined.size() == 4);
  CHECK(test::read(joined, 0).targets == Ids{none, 3, none, none});
  CHECK(test::read(joined, 1).targets == Ids{none, none, none, none});
  CHECK(test::read(joined, 2).targets == Ids{10, 11, none, none});
  CHECK(test::read(joined, 3).tokens == Ids{13, 14, 15, 16});
  CHECK(test::read(joined, 3).targets == Ids{none, none, none, 17});
  check_counted(joined);

  write_counted(folder / "none", 60000, {{1, 2, 3, 4}}, {{1, 0, 0, 0}});
  CHECK(contains(error_of<DataError>([&] { DocumentDataset none_of(alone_options(folder / "none", 4)); }),
                 "none of its 1 documents has a token that counts among the first 4 behind its first"));
}

TEST_CASE("every epoch has each document once, in an order of its own that no number of samples changes", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, test::distinct_documents(std::vector<int32_t>(50, 5)));
  const DocumentDataset data(alone_options(folder / "x", 8, 120));
  CHECK(data.size() == 150);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order = documents_of(data, 50 * epoch, 50);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 50; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  }
  CHECK(orders.size() == 3);
  CHECK(documents_of(DocumentDataset(alone_options(folder / "x", 8, 1000)), 0, 150) == documents_of(data, 0, 150));
  CHECK(documents_of(DocumentDataset(alone_options(folder / "x", 8)), 0, 50) == documents_of(data, 0, 50));
  CHECK(DocumentDataset(alone_options(folder / "x", 8)).size() == 50);
  GptDatasetOptions other = alone_options(folder / "x", 8);
  other.seed = 7;
  CHECK(documents_of(DocumentDataset(other), 0, 50) != documents_of(data, 0, 50));
  const auto sequential = documents_of(DocumentDataset(in_order(alone_options(folder / "x", 8))), 0, 50);
  CHECK(std::is_sorted(sequential.begin(), sequential.end()));
}

TEST_CASE("what counts in a sample is as many as its targets", "[data]") {
  std::mt19937 random(test::test_seed());
  const TemporaryFolder folder;
  std::vector<int32_t> lengths(60);
  for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 40);
  const DocumentList documents = test::distinct_documents(lengths);
  write_counted(folder / "x", 60000, documents, random_counts(documents, random));
  test::write_dataset(folder / "plain", 60000, documents);
  for (const char* name : {"x", "plain"}) {
    for (const int64_t sequence : {1, 4, 13, 64}) {
      INFO(name << ", " << sequence);
      check_counted(*open_samples(options_for(folder / name, sequence, 100)));
      check_counted(*open_samples(in_order(options_for(folder / name, sequence))));
      check_counted(*open_samples(alone_options(folder / name, sequence, 100)));
    }
  }
  const std::unique_ptr<SampleSource> blend =
      open_training_data({{1, folder / "x"}, {2, folder / "plain"}}, 90, alone_options("", 13));
  check_counted(*blend);
  CHECK(blend->left_out().size() == 2);
  CHECK(blend->datasets()[0].counts_xxh3 != "");
  CHECK(blend->datasets()[1].counts_xxh3.empty());
}

TEST_CASE("parts of data.split have their own documents when they are alone", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, test::distinct_documents(std::vector<int32_t>(20, 5)));
  GptDatasetOptions options = in_order(alone_options(folder / "x", 8));
  options.split = "3,1";
  CHECK(DocumentDataset(options).size() == 15);
  options.part = 1;
  const DocumentDataset held(options);
  CHECK(documents_of(held, 0, held.size()) == std::vector<int64_t>{15, 16, 17, 18, 19});
}

}  // namespace zrt::document_samples_test
