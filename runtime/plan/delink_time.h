// Predicts what the delink of shared layers moves (docs/pseudo_to_real.md), and how long it takes on a cluster: the run
// saves a checkpoint of them, and loads layers of their own from it.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/sharing.h"
#include "runtime/plan/plan.h"

namespace zrt::runtime {

// The system is taken to keep nothing of a file in memory but what a host has read of it while it loads.
struct DelinkSeconds {
  double save = 0;  // the checkpoint is written, and read for its hashes by one process
  double load = 0;  // it is read for its hashes again; then every rank reads what it will hold, and puts it in place
};

struct DelinkTime {
  uint64_t checkpoint_bytes = 0;  // of all tensors of the shared layers' checkpoint
  uint64_t loaded_bytes = 0;      // read by a rank, of the stage where that is most
  TierBytes placed_bytes{};       // written by a rank into each tier, of the stage that takes longest or has most
  std::optional<DelinkSeconds> seconds;  // on a cluster
};

// `real` has the phase "load". What layers share is read and written to NVMe once for all of them.
DelinkTime delink_time(const Plan& shared, const Plan& real, const models::Sharing& sharing);

nlohmann::ordered_json delink_json(const DelinkTime& time);
std::string delink_text(const DelinkTime& time, const std::optional<Cluster>& cluster);

}  // namespace zrt::runtime
