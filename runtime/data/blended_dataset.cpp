#include "runtime/data/blended_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "runtime/data/numpy_random.h"
#include "runtime/data/open_samples.h"

namespace zrt::runtime::data {

using core::ConfigError;

std::vector<double> normalised_weights(std::span<const double> weights) {
  for (const double weight : weights)
    if (!(weight >= 0) || !std::isfinite(weight))
      throw ConfigError(
          fmt::format("data.train: a dataset has weight {}; a weight is a finite number of 0 or more.", weight));
  const double sum = numpy_sum(weights);
  if (!(sum > 0) || !std::isfinite(sum))
    throw ConfigError(fmt::format("data.train: the weights of the {} datasets sum to {}; the sum must be positive.",
                                  weights.size(), sum));
  std::vector<double> result;
  for (const double weight : weights) result.push_back(weight / sum);
  return result;
}

std::vector<int64_t> blend_requests(std::span<const double> normalised, int64_t samples) {
  constexpr double surplus = 0.005;
  std::vector<int64_t> requests;
  for (const double weight : normalised)
    requests.push_back(
        static_cast<int64_t>(std::ceil(std::ceil(static_cast<double>(samples) * weight) * (1 + surplus))));
  return requests;
}

BlendedDataset::BlendedDataset(std::vector<Part> parts, int64_t samples) : parts_(std::move(parts)) {
  if (parts_.empty() || parts_.size() > std::numeric_limits<int16_t>::max())
    throw ConfigError(fmt::format("data.train: {} datasets cannot be blended; legal are 1 to {}.", parts_.size(),
                                  std::numeric_limits<int16_t>::max()));
  std::vector<double> weights;
  for (const Part& part : parts_) {
    weights.push_back(part.weight);
    if (part.source->sequence() != sequence())
      throw ConfigError(fmt::format("data.train: samples of {} and of {} tokens cannot be blended.", sequence(),
                                    part.source->sequence()));
  }
  // Megatron normalises twice and the second time can change the last bit; the size lies between the two.
  weights = normalised_weights(weights);
  int64_t size = 0;
  for (const double weight : weights) size += static_cast<int64_t>(std::ceil(static_cast<double>(samples) * weight));
  weights = normalised_weights(weights);

  dataset_.reserve(static_cast<size_t>(size));
  number_.reserve(static_cast<size_t>(size));
  std::vector<int64_t> taken(parts_.size(), 0);
  for (int64_t i = 0; i < size; ++i) {
    size_t next = 0;
    double furthest = std::numeric_limits<double>::lowest();
    for (size_t d = 0; d < parts_.size(); ++d) {
      const double behind = weights[d] * static_cast<double>(std::max<int64_t>(i, 1)) - static_cast<double>(taken[d]);
      if (behind > furthest) next = d, furthest = behind;
    }
    dataset_.push_back(static_cast<int16_t>(next));
    number_.push_back(taken[next]++);
  }
  for (size_t d = 0; d < parts_.size(); ++d)
    if (taken[d] > parts_[d].source->size())
      throw core::DataError(
          fmt::format("data.train: dataset {} (weight {}) has {} samples but a blend of {} takes {} of them.", d,
                      parts_[d].weight, parts_[d].source->size(), size, taken[d]));
}

std::pair<int64_t, int64_t> BlendedDataset::part(int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw core::DataError(
        fmt::format("data.train: sample {} does not exist; the blend has samples 0 to {}.", sample, size() - 1));
  return {dataset_[static_cast<size_t>(sample)], number_[static_cast<size_t>(sample)]};
}

void BlendedDataset::read(int64_t sample, const SampleRows& to) const {
  const auto [dataset, number] = part(sample);
  parts_[static_cast<size_t>(dataset)].source->read(number, to);
}

int64_t BlendedDataset::counted(int64_t sample) const {
  const auto [dataset, number] = part(sample);
  return parts_[static_cast<size_t>(dataset)].source->counted(number);
}

SampleOrigin BlendedDataset::origin(int64_t sample) const {
  const auto [dataset, number] = part(sample);
  SampleOrigin origin = parts_[static_cast<size_t>(dataset)].source->origin(number);
  origin.dataset = dataset;
  return origin;
}

std::vector<DatasetFacts> BlendedDataset::datasets() const {
  std::vector<DatasetFacts> all;
  for (const Part& part : parts_) {
    const std::vector<DatasetFacts> facts = part.source->datasets();
    all.insert(all.end(), facts.begin(), facts.end());
  }
  return all;
}

std::vector<std::string> BlendedDataset::of_parts(std::vector<std::string> (SampleSource::*said)() const) const {
  std::vector<std::string> all;
  for (const Part& part : parts_) {
    const std::vector<std::string> texts = (part.source.get()->*said)();
    all.insert(all.end(), texts.begin(), texts.end());
  }
  return all;
}

std::unique_ptr<SampleSource> open_training_data(const std::vector<WeightedPrefix>& prefixes, int64_t samples,
                                                 GptDatasetOptions common) {
  common.samples = samples;
  if (prefixes.size() == 1) {
    common.prefix = prefixes.front().prefix;
    return open_samples(common);
  }
  std::vector<double> weights;
  for (const WeightedPrefix& prefix : prefixes) weights.push_back(prefix.weight);
  const std::vector<int64_t> requests = blend_requests(normalised_weights(weights), samples);
  std::vector<BlendedDataset::Part> parts;
  for (size_t d = 0; d < prefixes.size(); ++d) {
    common.prefix = prefixes[d].prefix;
    common.samples = requests[d];
    parts.push_back({prefixes[d].weight, open_samples(common)});
  }
  return std::make_unique<BlendedDataset>(std::move(parts), samples);
}

}  // namespace zrt::runtime::data
