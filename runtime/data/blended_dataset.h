// Samples of several datasets mixed by weight, in Megatron-Core's order: every sample comes from the dataset that is
// furthest behind its share.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/gpt_dataset.h"
#include "runtime/data/sample_source.h"

namespace zrt::runtime::data {

// Weights divided by their sum. Throws ConfigError unless all are finite, 0 or more, and one is positive.
std::vector<double> normalised_weights(std::span<const double> weights);

// Samples to ask of each dataset so that a blend of `samples` never runs dry (0.5 % more than its share).
std::vector<int64_t> blend_requests(std::span<const double> normalised, int64_t samples);

class BlendedDataset : public SampleSource {
 public:
  struct Part {
    double weight = 1;
    std::shared_ptr<const SampleSource> source;
  };
  // At least `samples` samples. Throws ConfigError for bad weights or parts with different S, DataError when a part
  // has fewer samples than the blend needs.
  BlendedDataset(std::vector<Part> parts, int64_t samples);

  int64_t size() const override { return static_cast<int64_t>(dataset_.size()); }
  int64_t sequence() const override { return parts_.front().source->sequence(); }
  void read(int64_t sample, const SampleRows& to) const override;

  int64_t counted(int64_t sample) const override;
  SampleOrigin origin(int64_t sample) const override;
  std::vector<DatasetFacts> datasets() const override;
  std::vector<std::string> left_out() const override { return of_parts(&SampleSource::left_out); }
  std::vector<std::string> fullness() const override { return of_parts(&SampleSource::fullness); }
  // Returns a sample's dataset, and its number there.
  std::pair<int64_t, int64_t> part(int64_t sample) const;

 private:
  std::vector<std::string> of_parts(std::vector<std::string> (SampleSource::*said)() const) const;
  std::vector<Part> parts_;
  std::vector<int16_t> dataset_;
  std::vector<int64_t> number_;
};

// Opens what data.train names: one prefix, or several blended. `common` gives everything but prefix and samples.
struct WeightedPrefix {
  double weight = 1;
  std::string prefix;
};
std::unique_ptr<SampleSource> open_training_data(const std::vector<WeightedPrefix>& prefixes, int64_t samples,
                                                 GptDatasetOptions common);

}  // namespace zrt::runtime::data
