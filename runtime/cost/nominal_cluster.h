// Constants of a machine of today, for choices that need some machine and have no parallel.cluster: which of two
// placements is the faster one depends on ratios, and those of today's machines are alike. Nothing that is shown as a
// prediction comes from it.
#pragma once
#include "runtime/cost/cluster.h"

namespace zrt::runtime {

// Returns the machine of ranks that compute on `device`. It never changes.
const Cluster& nominal_cluster(core::DeviceKind device);

}  // namespace zrt::runtime
