// The loads of a step: what came to each expert of each layer, over all microbatches and ranks. They make a line of
// expert_loads.jsonl.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/router_tally.h"
#include "runtime/engine/session.h"

namespace zrt::runtime {

struct LayerLoads {
  int64_t layer = 0;  // of the whole model, from 0
  std::vector<models::ExpertLoad> experts;
  bool operator==(const LayerLoads&) const = default;
};

bool has_experts(const Session& session);

// Returns the loads of the step just taken, in every process, with layers in ascending order. Each set of ranks that
// share blocks counts once, as they route alike. Collective over processes.
std::vector<LayerLoads> read_expert_loads(Session& session);

std::string to_json_line(int64_t step, const std::vector<LayerLoads>& loads);

}  // namespace zrt::runtime
