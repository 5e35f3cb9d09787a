// A configuration with the overrides of one placement, compiled as a training run would be.
#pragma once
#include <string>
#include <vector>

#include "runtime/bench/offload.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {

struct OffloadWay {
  Config config;
  std::vector<Compiled> stages;
};
// Throws like compile_within_budget.
OffloadWay compile_way(const Config& config, const models::Model& model, const std::vector<std::string>& sets);

// All of OffloadRun that is not measured.
OffloadRun describe(const OffloadWay& way);

// Returns what the automatic placement needs of the device at least, with these overrides.
uint64_t least_device_bytes(const Config& config, const models::Model& model, std::vector<std::string> sets);

}  // namespace zrt::runtime
