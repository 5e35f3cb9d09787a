#include "runtime/train/train_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/train/masked.h"

namespace zrt::runtime {
namespace {

// A dataset that a key names; what is wrong with it is said with the key.
template <class Open>
auto open_of(const char* key, const Open& open) {
  try {
    return open();
  } catch (const core::DataError& error) {
    throw core::DataError(fmt::format("{}: {}", key, error.what()));
  }
}

}  // namespace

std::shared_ptr<const data::SampleSource> open_train_data(const Config& config, const models::Model& model,
                                                          int64_t samples) {
  if (config.data.train.empty()) {
    throw core::ConfigError(
        "data.train is not set; it names the prefix of a .bin/.idx pair, for example one that `zrt data build --out "
        "PREFIX FILE…` makes");
  }
  std::vector<data::WeightedPrefix> prefixes;
  std::vector<std::string> all;
  for (const DataSource& source : config.data.train) {
    prefixes.push_back({source.weight, source.prefix});
    all.push_back(source.prefix);
  }
  for (const DataSource& source : config.data.validation) all.push_back(source.prefix);
  const auto made_by = data::common_tokenizer(all, model.vocab);
  data::GptDatasetOptions common;
  common.sequence = text_sequence(model);
  common.vocabulary = model.vocab;
  common.seed = static_cast<uint32_t>(config.run.seed);
  common.split = config.data.train.front().split;  // of all datasets alike
  common.documents = config.data.documents;
  if (common.documents != data::DocumentUse::joined && made_by) common.padding = data::open_tokenizer(*made_by)->eod();
  return open_of("data.train", [&] {
    return masked(data::open_training_data(prefixes, samples, common), model, all,
                  static_cast<uint64_t>(config.run.seed));
  });
}

bool same_order(const data::SampleSource& a, const data::SampleSource& b, int64_t samples) {
  const int64_t compared = std::min<int64_t>(samples, 4096);
  for (int64_t i = 0; i < compared; ++i) {
    const int64_t sample =
        static_cast<int64_t>(static_cast<double>(i) / static_cast<double>(compared) * static_cast<double>(samples));
    const data::SampleOrigin one = a.origin(sample), other = b.origin(sample);
    if (one.dataset != other.dataset || one.document != other.document || one.offset != other.offset) return false;
  }
  return true;
}

std::optional<EvalData> open_validation_data(const Config& config, const models::Model& model) {
  if (config.data.validation.empty()) return std::nullopt;
  const char* key = config.data.validation.front().split.empty() ? "data.validation" : "data.split";
  return open_of(key, [&] { return open_eval_data(config.data.validation, config.data.documents, model); });
}

}  // namespace zrt::runtime
