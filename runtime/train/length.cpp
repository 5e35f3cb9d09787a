#include "runtime/train/length.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"

namespace zrt::runtime {
namespace {

class RoundedUp : public data::SampleSource {
 public:
  RoundedUp(std::shared_ptr<const data::SampleSource> source, int64_t planned, int64_t samples)
      : source_(std::move(source)), planned_(planned), samples_(samples) {}

  int64_t size() const override { return samples_; }
  int64_t sequence() const override { return source_->sequence(); }
  void read(int64_t sample, const data::SampleRows& to) const override { source_->read(place(sample), to); }
  int64_t counted(int64_t sample) const override { return source_->counted(place(sample)); }
  data::SampleOrigin origin(int64_t sample) const override { return source_->origin(place(sample)); }
  std::vector<data::DatasetFacts> datasets() const override { return source_->datasets(); }

 private:
  int64_t place(int64_t sample) const { return sample < planned_ ? sample : (sample - planned_) % planned_; }

  std::shared_ptr<const data::SampleSource> source_;
  int64_t planned_, samples_;
};

// Keys of the schedule that have another value, in words.
std::string schedule_changes(const Config& before, const Config& after) {
  std::map<std::string, std::string> was;
  for (const ResolvedKey& key : before.keys) was[key.path] = key.value;
  std::string text;
  for (const ResolvedKey& key : after.keys) {
    if (!key.path.starts_with("scheduler.") || was[key.path] == key.value) continue;
    text += fmt::format("; {} = {} follows", key.path, key.value);
  }
  return text;
}

}  // namespace

Config rest_of_run(const Config& config, const checkpoint::Manifest& from,
                   const std::function<void(const std::string&)>& warn) {
  if (config.run.samples == 0 || config.run.load_module_only || from.step == 0) return config;
  const int64_t left = std::max<int64_t>(0, config.run.samples - from.samples), batch = config.batch.train;
  const int64_t steps = from.step + (left + batch - 1) / batch;
  if (steps == config.run.steps) return config;
  Config rest = with_steps(config, steps);
  warn(
      fmt::format("the run has {} steps, not {}: the checkpoint of step {} has read {} of its {} samples, and the rest "
                  "are {} in steps of {}{}",
                  steps, config.run.steps, from.step, from.samples, config.run.samples, left, batch,
                  schedule_changes(config, rest)));
  return rest;
}

std::shared_ptr<const data::SampleSource> rounded_up(std::shared_ptr<const data::SampleSource> source, int64_t planned,
                                                     int64_t samples) {
  return std::make_shared<RoundedUp>(std::move(source), planned, samples);
}

}  // namespace zrt::runtime
