// A run reads what data.documents and counts of tokens say, and so its length and its checkpoints follow from them.
#include <filesystem>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "runtime/data/packed_dataset.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/train_data.h"
#include "tests/temporary_folder.h"

namespace zrt::run_documents_test {
namespace {

using namespace runtime;
using checkpoint::Json;
using testing::TemporaryFolder;

constexpr int64_t samples = 50;

struct Data {
  TemporaryFolder folder;
  Data() { write("x", 0), write("held", 3); }
  std::string operator/(const std::string& name) const { return (folder.path / name).string(); }
  // 20 documents of 5 to 43 tokens, of which those with a number of the same remainder by 4 as `counts` count.
  void write(const std::string& name, int counts) const {
    data::IndexedDatasetWriter writer(*this / name, 257, true);
    int32_t next = 0;
    for (int d = 0; d < 20; ++d) {
      std::vector<int32_t> ids;
      std::vector<uint8_t> counted;
      for (int i = 0; i < 5 + 2 * d; ++i, ++next)
        ids.push_back(next % 256), counted.push_back(next % 4 == counts ? 1 : 0);
      writer.append_counted(ids, counted);
      writer.end_document();
    }
    data::DatasetMeta meta{"bytes", 257, writer.documents(), writer.tokens(), writer.tokens(), 8};
    meta.counted_tokens = writer.counted_tokens();
    writer.seal(meta);
    writer.publish();
  }
  Config config(const Json& model, const Json& more, const Json& run = {{"steps", 5}}) const {
    Json json{{"train_batch_size", 4}, {"model", model}, {"data", more}, {"run", run}};
    json["data"]["train"] = *this / "x", json["data"]["validation"] = *this / "held";
    return parse_config(json.dump(), "test", {}, 1);
  }
};

const Json gpt{{"preset", "gpt2-tiny"}, {"sequence", 32}, {"vocab", 300}};
const Json bert{{"preset", "bert-tiny"}, {"sequence", 32}, {"vocab", 300}};

struct Sample {
  std::vector<int32_t> tokens, targets, positions;  // -1 where nobody fills them
  bool operator==(const Sample&) const = default;
};
Sample read(const data::SampleSource& source, int64_t n) {
  const auto sequence = static_cast<size_t>(source.sequence());
  Sample sample{std::vector<int32_t>(sequence), std::vector<int32_t>(sequence), std::vector<int32_t>(sequence, -1)};
  source.read(n, {sample.tokens.data(), sample.targets.data(), sample.positions.data()});
  return sample;
}

Json facts_of(const Config& config) {
  const models::Model model = config.model.make();
  return data_json(config, model, *open_train_data(config, model, samples), open_validation_data(config, model));
}

std::string changes_of(const Json& before, const Json& now) {
  std::string text;
  for (const std::string& line : data_changes(before, now, 20)) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("documents alone are read in training and evaluation, with the end of documents behind them") {
  const Data data;
  const Config config = data.config(gpt, {{"documents", "alone"}}, {{"steps", 5}, {"seed", 7}});
  const models::Model model = config.model.make();
  const auto source = open_train_data(config, model, samples);
  data::GptDatasetOptions options;
  options.prefix = data / "x", options.sequence = 32, options.vocabulary = 300, options.samples = samples;
  options.seed = 7, options.documents = data::DocumentUse::alone, options.padding = 256;
  const data::DocumentDataset expected(options);
  REQUIRE(source->size() == 60);
  for (int64_t i = 0; i < 60; ++i) CHECK(read(*source, i) == read(expected, i));
  CHECK(read(*source, 0).tokens.back() == (data::open_documents(data / "x")->length(source->origin(0).document) < 32
                                               ? 256
                                               : read(expected, 0).tokens.back()));
  CHECK(source->left_out().size() == 1);

  const EvalData held = *open_validation_data(config, model);
  REQUIRE(held.at(0).source->size() == 20);
  for (int64_t i = 0; i < 20; ++i) CHECK(held[0].source->origin(i).document == i);
  CHECK(read(*held[0].source, 0).tokens.back() == 256);
  CHECK(open_validation_data(data.config(gpt, {}), model)->at(0).source->size() > 0);
}

TEST_CASE("separate documents share samples in training and evaluation, and say how much of them is padding") {
  const Data data;
  const Config config = data.config(gpt, {{"documents", "separate"}}, {{"steps", 5}, {"seed", 7}});
  const models::Model model = config.model.make();
  const auto source = open_train_data(config, model, samples);
  data::GptDatasetOptions options;
  options.prefix = data / "x", options.sequence = 32, options.vocabulary = 300, options.samples = samples;
  options.seed = 7, options.padding = 256;
  const data::PackedDataset expected(options);
  REQUIRE(source->size() == expected.size());
  int64_t padded = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    const Sample sample = read(*source, i);
    CHECK(sample == read(expected, i));
    CHECK(sample.positions[0] == 0);
    if (sample.tokens.back() == 256 && sample.positions.back() == 0) ++padded;
  }
  CHECK(padded > 0);
  REQUIRE(source->fullness().size() == 1);
  CHECK_THAT(source->fullness()[0], Catch::Contains("samples of 32 tokens hold 20 documents; ") &&
                                        Catch::Contains("% of their places are padding"));

  options.prefix = data / "held", options.samples.reset(), options.order = data::Order::sequential;
  const data::PackedDataset held(options);
  const EvalData read_by_run = *open_validation_data(config, model);
  REQUIRE(read_by_run.at(0).source->size() == held.size());
  for (int64_t i = 0; i < held.size(); ++i) CHECK(read(*read_by_run[0].source, i) == read(held, i));
}

TEST_CASE("an epoch of separate documents has as many samples as they are packed into") {
  const Data data;
  data::GptDatasetOptions options;
  options.prefix = data / "x", options.sequence = 32, options.vocabulary = 300;
  const int64_t packed = data::PackedDataset(options).size();
  CHECK(data.config(gpt, {{"documents", "separate"}}, {{"epochs", 2}}).run.samples == 2 * packed);
  CHECK((packed >= (480 - 20 + 31) / 32 && packed < 20));
}

TEST_CASE("an epoch of documents alone has as many samples as documents") {
  const Data data;
  const Json run{{"epochs", 2}};
  CHECK(data.config(gpt, {{"documents", "alone"}}, run).run.samples == 40);
  CHECK(data.config(gpt, {{"documents", "joined"}}, run).run.samples == 2 * ((480 - 1) / 32));
  CHECK(data.config(gpt, {}, run).run.samples == 2 * ((480 - 1) / 32));
}

TEST_CASE("documents alone are refused for models whose tokens see what is behind them") {
  const Data data;
  const auto refusal = [&](const Json& model, const Json& more) {
    try {
      data.config(model, more);
    } catch (const core::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* use : {"alone", "separate"})
    CHECK_THAT(refusal(bert, {{"documents", use}}),
               Catch::Contains("data.documents") && Catch::Contains("is not for model.type bert"));
  CHECK(refusal(bert, {}).empty());
  CHECK_THAT(refusal(gpt, {{"documents", "packed"}}), Catch::Contains("data.documents"));
}

TEST_CASE("a dataset that says which tokens count is refused where tokens are hidden") {
  const Data data;
  const Config config = data.config(bert, {});
  CHECK_THROWS_WITH(open_train_data(config, config.model.make(), samples),
                    Catch::Contains("x.counts.idx: it says which tokens count"));
}

TEST_CASE("other counts and another data.documents are told where a run goes on") {
  const Data data;
  const Json before = facts_of(data.config(gpt, {}));
  CHECK(changes_of(before, before).empty());
  CHECK_THAT(changes_of(before, facts_of(data.config(gpt, {{"documents", "alone"}}))),
             Catch::Contains("data.documents is alone and was joined: samples are cut and shuffled anew"));
  const Json separate = facts_of(data.config(gpt, {{"documents", "separate"}}));
  CHECK(changes_of(separate, separate).empty());
  CHECK_THAT(changes_of(before, separate),
             Catch::Contains("data.documents is separate and was joined: samples are cut and shuffled anew"));
  CHECK_THAT(changes_of(separate, facts_of(data.config(gpt, {{"documents", "alone"}}))),
             Catch::Contains("data.documents is alone and was separate: samples are cut and shuffled anew"));
  data.write("x", 1);
  CHECK_THAT(changes_of(before, facts_of(data.config(gpt, {}))),
             Catch::Contains("x has the tokens of the checkpoint's") && Catch::Contains("but others of them count"));
  std::filesystem::remove(data / "x.counts.idx");
  std::filesystem::remove(data / "x.meta.json");
  CHECK_THAT(changes_of(before, facts_of(data.config(gpt, {}))), Catch::Contains("but others of them count"));
}

}  // namespace zrt::run_documents_test
