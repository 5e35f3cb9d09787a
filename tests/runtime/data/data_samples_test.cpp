// Samples: Megatron's indices and blends against goldens, the text they cover, what ranks read.
#include "tests/runtime/data/data_samples.h"

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/gpt_dataset.h"
#include "runtime/data/sampler.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_samples_test {

using namespace zrt::runtime::data;
using test::contains;
using test::distinct_documents;
using test::DocumentList;
using test::error_of;
using test::options_for;
using test::read;
using test::Sample;
using test::TemporaryFolder;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(test::read_file(zrt::test::data_folder() + "/dataset_golden/index.json"));
  return all;
}

}  // namespace

TEST_CASE("indices equal Megatron's", "[data]") {
  std::set<bool> separate;
  for (const auto& item : golden()["gpt"]) {
    std::optional<int64_t> samples;
    if (!item["samples"].is_null()) samples = item["samples"].get<int64_t>();
    const SampleIndex index = build_sample_index(item["lengths"].get<std::vector<int32_t>>(), item["first"],
                                                 item["sequence"], samples, item["seed"], Order::megatron, "golden");
    INFO("samples " << item["samples"] << " of " << item["sequence"] << ", seed " << item["seed"]);
    CHECK(index.epochs == item["epochs"].get<int64_t>());
    CHECK(index.separate_last_epoch == item["separate"].get<bool>());
    CHECK(index.documents == item["documents"].get<std::vector<int32_t>>());
    CHECK(index.order == item["shuffle"].get<std::vector<int64_t>>());
    std::vector<std::vector<int64_t>> starts;
    for (const SampleStart& start : index.starts) starts.push_back({start.position, start.offset});
    CHECK(starts == item["starts"].get<std::vector<std::vector<int64_t>>>());
    separate.insert(index.separate_last_epoch);
  }
  CHECK(separate.size() == 2);
}

TEST_CASE("a sample is S + 1 tokens of the shuffled documents laid end to end", "[data]") {
  const TemporaryFolder folder;
  for (const auto& item : golden()["gpt"]) {
    if (item["first"] != 0) continue;
    const DocumentList documents = distinct_documents(item["lengths"].get<std::vector<int32_t>>());
    test::write_dataset(folder / "x", 60000, documents);
    GptDatasetOptions options = options_for(folder / "x", item["sequence"]);
    if (!item["samples"].is_null()) options.samples = item["samples"].get<int64_t>();
    options.seed = item["seed"];
    const GptDataset dataset(options);
    REQUIRE(dataset.size() == static_cast<int64_t>(item["shuffle"].size()));
    CHECK(dataset.size() >= options.samples.value_or(0));

    std::vector<int32_t> stream;
    for (const int32_t id : item["documents"])
      stream.insert(stream.end(), documents[static_cast<size_t>(id)].begin(), documents[static_cast<size_t>(id)].end());
    bool same = true;
    for (int64_t k = 0; k < dataset.size(); ++k) {
      const auto at = stream.begin() + item["shuffle"][static_cast<size_t>(k)].get<int64_t>() * options.sequence;
      const Sample sample = read(dataset, k);
      same = same && std::equal(sample.tokens.begin(), sample.tokens.end(), at) &&
             std::equal(sample.targets.begin(), sample.targets.end(), at + 1);
    }
    CHECK(same);
  }
}

TEST_CASE("one sequential epoch reads the text once, in order", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents({0, 7, 16, 0, 1, 30, 12}));
  GptDatasetOptions options = options_for(folder / "x", 8);
  options.order = Order::sequential;
  const GptDataset dataset(options);
  CHECK(dataset.size() == 8);  // 66 tokens: 65 targets, one of them left out
  CHECK(dataset.index().left_out == 1);
  int32_t next = 0;
  for (int64_t k = 0; k < dataset.size(); ++k) {
    const Sample sample = read(dataset, k);
    for (size_t i = 0; i < 8; ++i, ++next) {
      CHECK(sample.tokens[i] == next);
      CHECK(sample.targets[i] == next + 1);
    }
  }
  CHECK_THROWS_AS(read(dataset, 8), DataError);
  CHECK_THROWS_AS(read(dataset, -1), DataError);
}

TEST_CASE("too little text for one sample is an error that says how much is needed", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents({4, 4}));
  CHECK(GptDataset(options_for(folder / "x", 7)).size() == 1);
  const std::string message = error_of<DataError>([&] { GptDataset dataset(options_for(folder / "x", 8, 100)); });
  CHECK(contains(message, bin_path(folder / "x")));
  CHECK(contains(message, "8 tokens, too few for one sample: model.sequence 8 needs"));
  test::write_dataset(folder / "x", 60000, {});
  CHECK_THROWS_AS(GptDataset(options_for(folder / "x", 1)), DataError);
  test::write_dataset(folder / "x", 60000, {{}, {}});
  CHECK_THROWS_AS(GptDataset(options_for(folder / "x", 1)), DataError);
}

TEST_CASE("absurd numbers of samples are refused, not overflowed", "[data]") {
  CHECK_THROWS_AS(build_sample_index({100}, 0, 64, INT64_MAX / 2, 1, Order::megatron, "x"), DataError);
  CHECK_THROWS_AS(build_sample_index({100}, 0, INT64_MAX, {}, 1, Order::megatron, "x"), DataError);
  CHECK_THROWS_AS(build_sample_index({100}, 0, 0, {}, 1, Order::megatron, "x"), ConfigError);
}

TEST_CASE("a token beyond the model's vocabulary stops the read", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, {{1, 2, 3, 4, 50, 6, 7, 8, 9}});
  GptDatasetOptions options = options_for(folder / "x", 4);
  options.order = Order::sequential;
  options.vocabulary = 50;
  const GptDataset dataset(options);
  const std::string as_target = error_of<DataError>([&] { read(dataset, 0); });
  CHECK(contains(as_target, "token 4 of sequence 0 (byte 8) is 50; the model's vocabulary has 50 ids"));
  CHECK(!error_of<DataError>([&] { read(dataset, 1); }).empty());
}

TEST_CASE("splits take the sequences that Megatron takes", "[data]") {
  for (const auto& item : golden()["splits"]) {
    const auto parts = split_sequences(item["split"].get<std::string>(), item["sequences"]);
    INFO(item["split"] << " of " << item["sequences"]);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(parts[i].first == item["parts"][i][0].get<int64_t>());
      CHECK(parts[i].second == item["parts"][i][1].get<int64_t>());
    }
  }
  for (const char* bad : {"", "a", "1,", "1,2,3,4", "-1,2", "0,0,0", "1,,2", "1 2", "inf", "nan", "1e400"})
    CHECK(contains(error_of<ConfigError>([&] { split_sequences(bad, 10); }), "data.split is '" + std::string(bad)));

  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents(std::vector<int32_t>(10, 20)));
  GptDatasetOptions options = options_for(folder / "x", 4);
  options.split = "8,2";
  options.part = 1;
  const GptDataset validation(options);
  CHECK(validation.size() == 9);
  for (int64_t k = 0; k < validation.size(); ++k) CHECK(read(validation, k).tokens.front() >= 160);
  options.part = 2;
  CHECK_THROWS_AS(GptDataset(options), DataError);
}

TEST_CASE("blends take datasets in Megatron's order", "[data]") {
  const TemporaryFolder folder;
  for (const auto& item : golden()["blends"]) {
    const auto weights = item["weights"].get<std::vector<double>>();
    const int64_t samples = item["samples"];
    CHECK(blend_requests(normalised_weights(weights), samples) == item["requests"].get<std::vector<int64_t>>());

    std::vector<WeightedPrefix> prefixes;
    std::vector<std::shared_ptr<GptDataset>> alone;
    std::vector<BlendedDataset::Part> parts;
    for (size_t d = 0; d < weights.size(); ++d) {
      prefixes.push_back({weights[d], folder / std::to_string(d)});
      std::vector<int32_t> tokens(40);
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(1000 * d));
      test::write_dataset(prefixes[d].prefix, 60000, {tokens});
      alone.push_back(
          std::make_shared<GptDataset>(options_for(prefixes[d].prefix, 8, item["requests"][d].get<int64_t>())));
      parts.push_back({weights[d], alone[d]});
    }
    const BlendedDataset blend(parts, samples);
    const auto opened = open_training_data(prefixes, samples, options_for("", 8));
    INFO(item["weights"]);
    REQUIRE(blend.size() == static_cast<int64_t>(item["dataset"].size()));
    if (weights.size() > 1) CHECK(opened->size() == blend.size());
    CHECK(opened->size() >= samples);
    for (int64_t i = 0; i < blend.size(); ++i) {
      const auto [dataset, number] = blend.part(i);
      REQUIRE(dataset == item["dataset"][static_cast<size_t>(i)].get<int64_t>());
      REQUIRE(number == item["number"][static_cast<size_t>(i)].get<int64_t>());
      CHECK(blend.origin(i).dataset == dataset);
      const Sample sample = read(blend, i);
      CHECK(sample.tokens == read(*alone[static_cast<size_t>(dataset)], number).tokens);
      if (weights.size() > 1) CHECK(read(*opened, i).targets == sample.targets);
    }
    CHECK_THROWS_AS(read(blend, blend.size()), DataError);
  }
}

TEST_CASE("bad blends are refused", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents({40}));
  const auto four = std::make_shared<GptDataset>(options_for(folder / "x", 4));
  const auto five = std::make_shared<GptDataset>(options_for(folder / "x", 5));
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(BlendedDataset({}, 1), ConfigError);
  CHECK_THROWS_AS(BlendedDataset({{0, four}}, 1), ConfigError);
  CHECK_THROWS_AS(BlendedDataset({{1, four}, {-1, four}}, 1), ConfigError);
  CHECK_THROWS_AS(BlendedDataset({{1, four}, {nan, four}}, 1), ConfigError);
  CHECK_THROWS_AS(BlendedDataset({{1, four}, {inf, four}}, 1), ConfigError);
  CHECK_THROWS_AS(BlendedDataset({{1, four}, {1, five}}, 1), ConfigError);
  CHECK(contains(error_of<DataError>([&] { BlendedDataset({{1, four}, {1, four}}, 100); }), "has 9 samples"));
  CHECK_THROWS_AS(open_training_data({}, 1, options_for("", 4)), ConfigError);
}

TEST_CASE("ranks read every sample once and another number of ranks goes on where they stopped", "[data]") {
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t microbatches : {1, 3}) {
      const BatchShape shape{2, ranks, microbatches};
      std::vector<int64_t> read_order;
      for (int64_t step = 0; step < 3; ++step)
        for (int64_t micro = 0; micro < microbatches; ++micro)
          for (int64_t rank = 0; rank < ranks; ++rank)
            for (int64_t row = 0; row < shape.rows; ++row)
              read_order.push_back(first_sample(shape, step, micro, rank, 10) + row);
      for (size_t i = 0; i < read_order.size(); ++i) CHECK(read_order[i] == 10 + static_cast<int64_t>(i));
      CHECK(static_cast<int64_t>(read_order.size()) == 3 * shape.step_samples());
    }
}

TEST_CASE("evaluation reads each sample once whatever the number of ranks", "[data]") {
  for (const int64_t samples : {1, 7, 8, 24, 25})
    for (const int64_t rows : {1, 3})
      for (const int64_t ranks : {1, 2, 5}) {
        std::map<int64_t, int> seen;
        const int64_t batches = eval_batches(samples, rows, ranks);
        for (int64_t batch = 0; batch < batches; ++batch)
          for (int64_t rank = 0; rank < ranks; ++rank) {
            const EvalBatch part = eval_batch(samples, rows, ranks, batch, rank);
            CHECK((part.count >= 0 && part.count <= rows));
            for (int64_t row = 0; row < part.count; ++row) ++seen[part.first + row];
          }
        CHECK(static_cast<int64_t>(seen.size()) == samples);
        for (const auto& [sample, times] : seen) CHECK((sample >= 0 && sample < samples && times == 1));
        CHECK(eval_batch(samples, rows, ranks, batches - 1, 0).count > 0);
      }
}

TEST_CASE("threads read one dataset at the same time", "[data]") {
  const TemporaryFolder folder;
  test::write_dataset(folder / "x", 60000, distinct_documents(std::vector<int32_t>(50, 100)));
  const GptDataset dataset(options_for(folder / "x", 64, 500));
  std::vector<int64_t> sums(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      std::vector<int32_t> tokens(64), targets(64);
      for (int64_t k = 0; k < dataset.size(); ++k) {
        dataset.read(k, {tokens.data(), targets.data()});
        for (size_t i = 0; i < 64; ++i) sums[t] = (sums[t] * 31 + tokens[i] + targets[i]) % 1000003;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int64_t sum : sums) CHECK(sum == sums[0]);
}

}  // namespace zrt::data_samples_test
