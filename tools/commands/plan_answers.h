// The questions to `zrt plan` beside whether a run fits: what tokens cost, and how much of one thing would fit.
#pragma once
#include <optional>

#include "runtime/plan/extreme.h"
#include "runtime/plan/run_cost.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

// Reads --tokens and --price. Throws UsageError where they are negative, no numbers, or have no cluster to take seconds
// from.
runtime::Price price_of(const po::variables_map& values, bool has_cluster);

// Replaces the configuration by that of --find, where something fits. Empty where --find is not given.
std::optional<runtime::Extreme> answer_find(const po::variables_map& values, runtime::Config& config,
                                            const runtime::Cluster* cluster);
nlohmann::ordered_json find_json(const runtime::Extreme& found);

}  // namespace zrt::tools
