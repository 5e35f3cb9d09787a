// The section `memory` and what DeepSpeed's offload keys say of the same: budgets, and wishes about where states live.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/form.h"
#include "runtime/config/microbatch_order.h"
#include "runtime/config/placement.h"
#include "runtime/config/update_when.h"

namespace zrt::runtime {

using LayerRange = std::pair<int64_t, int64_t>;  // first and last transformer layer, from 0

// The states that it names, of the units that it matches, are resident in `tier`. Of several rules for one state the
// last one counts.
struct PlacementRule {
  std::string from;  // key, value and place, for messages
  // At most one of the next two is given; a rule with neither matches everything.
  std::optional<LayerRange> layers;
  std::string parameters;           // pattern over names: '*' any characters, '?' one; "": not given
  double share = 1;                 // only the first units that hold at least this share of the parameters
  int64_t elements = INT64_MAX;     // only the first units whose shards have at most so many elements in all
  std::vector<std::string> states;  // "weight", "grad", "master", "moments", a state kind, "activations"
  core::Tier tier = core::Tier::device;
  bool must_match = true;  // refused when nothing is like that; false for what another key implies
};

enum class UpdateSide : uint8_t {
  automatic,  // the host, where a unit's master (fp32: weight) or all its optimizer states are resident elsewhere
  device,
  host,
};

struct MemoryConfig {
  std::optional<int64_t> device_budget_bytes, host_budget_bytes, nvme_budget_bytes;  // per rank; none: unlimited
  int64_t unit_bytes = 64 << 20;                                                     // largest unit
  bool master = true;  // fp32 masters of bf16 and fp16 weights; the form of moments lies in the optimizer's params
  std::optional<core::Form> frozen;              // of matrices of layers that are not trained; none: the compute type
  std::string nvme_path;                         // folder of the nvme tier; "": there is none
  std::optional<int64_t> link_bytes_per_second;  // of each direction between device and host; none: as fast as it is
  std::vector<PlacementRule> rules;
  bool open_placement = true;  // what no rule moves may be moved where a budget asks for it
  UpdateSide update = UpdateSide::automatic;
  UpdateWhen update_when = UpdateWhen::after_norm;
  Recompute recompute = Recompute::none;     // of recompute_layers
  std::vector<LayerRange> recompute_layers;  // empty: all
  std::string recompute_from;                // key, value and place, for messages
  bool open_recompute = true;                // layers may compute more again where a budget asks for it
  const MicrobatchOrder* order = MicrobatchOrder::automatic;
  Sliding sliding;           // over the layers of the model; as many as it has: their weights stay on the device
  std::string sliding_from;  // key, value and place, for messages
};

}  // namespace zrt::runtime
