// The length of a run that goes on, where run.epochs, run.tokens or run.samples say it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/sample_source.h"
#include "runtime/train/checkpoint/manifest.h"

namespace zrt::runtime {

// The configuration with as many steps as the samples that the checkpoint leaves make: those before it may have had
// another batch. `warn` hears how they count, and which schedules follow.
Config rest_of_run(const Config& config, const checkpoint::Manifest& from,
                   const std::function<void(const std::string&)>& warn);

// Reads an order of `planned` samples to its end. A last batch that reaches beyond it takes the first samples again,
// because an order laid out for more would be another from its start on.
std::shared_ptr<const data::SampleSource> rounded_up(std::shared_ptr<const data::SampleSource> source, int64_t planned,
                                                     int64_t samples);

}  // namespace zrt::runtime
