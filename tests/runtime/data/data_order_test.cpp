// The order of samples: Megatron-Core's own, and kept across changes of ranks and batch size.
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/data/blended_dataset.h"
#include "runtime/data/sampler.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_samples.h"

namespace zrt::data_order_test {

using namespace zrt::runtime::data;
using test::distinct_documents;
using test::options_for;
using test::read;
using test::Sample;
using test::TemporaryFolder;

TEST_CASE("samples are those of Megatron-Core's own GPTDataset and BlendedDataset", "[data]") {
  const std::string folder = zrt::test::data_folder() + "/dataset_golden/";
  const auto golden_samples = nlohmann::json::parse(test::read_file(folder + "megatron.json"));
  for (const auto& item : golden_samples["cases"]) {
    std::vector<WeightedPrefix> prefixes;
    for (const double weight : item["weights"])
      prefixes.push_back({weight, folder + "megatron_" + std::to_string(prefixes.size())});
    GptDatasetOptions options = options_for("", item["sequence"]);
    options.vocabulary = golden_samples["vocabulary"];
    options.seed = item["seed"];
    const auto data = open_training_data(prefixes, item["samples"], options);
    const auto expected = item["tokens"].get<std::vector<std::vector<int32_t>>>();
    INFO(item["weights"] << ", seed " << item["seed"]);
    REQUIRE(data->size() == static_cast<int64_t>(expected.size()));
    for (int64_t k = 0; k < data->size(); ++k) {
      Sample sample = read(*data, k);
      sample.tokens.push_back(sample.targets.back());
      REQUIRE(sample.tokens == expected[static_cast<size_t>(k)]);
    }
  }
}

TEST_CASE("a pair is written byte for byte as Megatron's own builder writes it", "[data]") {
  const TemporaryFolder folder;
  for (const char* name : {"megatron_0", "megatron_1", "megatron_2"}) {
    const std::string golden_pair = zrt::test::data_folder() + "/dataset_golden/" + name;
    test::write_dataset(folder / name, 1000, test::read_dataset(golden_pair, 1000));
    CHECK(test::read_file(bin_path(folder / name)) == test::read_file(bin_path(golden_pair)));
    CHECK(test::read_file(idx_path(folder / name)) == test::read_file(idx_path(golden_pair)));
  }
}

TEST_CASE("each sample of an epoch is read once across changes of ranks and batch size", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents(std::vector<int32_t>(40, 60)));
  constexpr int64_t sequence = 4, epoch = (40 * 60 - 1) / sequence;
  const GptDataset dataset(options_for(folder / "x", sequence, epoch));
  REQUIRE(dataset.size() == epoch);
  // A run in legs: so many steps at this shape, then the next shape goes on behind the samples consumed so far.
  struct Leg {
    BatchShape shape;
    int64_t steps;
  };
  const std::vector<std::vector<Leg>> runs{
      {{{4, 1, 2}, 10}, {{2, 4, 1}, 10}, {{1, 2, 4}, 0}},  // the same batch of 8 on 1, 4, 2 ranks
      {{{2, 3, 1}, 17}, {{2, 4, 3}, 5}, {{5, 1, 1}, 0}},   // batches of 6, 24, 5
  };
  for (const auto& legs : runs) {
    std::vector<int> times(static_cast<size_t>(epoch));
    std::set<int32_t> first_tokens;
    int64_t consumed = 0;
    for (const Leg& leg : legs) {
      const int64_t batch = leg.shape.step_samples();
      const int64_t steps = leg.steps > 0 ? leg.steps : (epoch - consumed) / batch;  // the last: to the end
      for (int64_t step = 0; step < steps; ++step, consumed += batch)
        for (int64_t micro = 0; micro < leg.shape.microbatches; ++micro)
          for (int64_t rank = 0; rank < leg.shape.ranks; ++rank)
            for (int64_t row = 0; row < leg.shape.rows; ++row) {
              const int64_t sample = first_sample(leg.shape, 0, micro, rank, consumed) + row;
              REQUIRE((sample >= 0 && sample < epoch));
              ++times[static_cast<size_t>(sample)];
              first_tokens.insert(read(dataset, sample).tokens.front());
            }
    }
    CHECK(epoch - consumed < legs.back().shape.step_samples());
    for (int64_t sample = 0; sample < epoch; ++sample) CHECK(times[static_cast<size_t>(sample)] == (sample < consumed));
    CHECK(static_cast<int64_t>(first_tokens.size()) == consumed);  // different samples are different text
  }
}

}  // namespace zrt::data_order_test
