// A machine of today, for choices between placements where no cluster is configured. Its times are no predictions.
#pragma once
#include "core/device.h"
#include "runtime/cluster.h"

namespace zrt::runtime {

const Cluster& nominal_cluster(core::DeviceKind device);

}  // namespace zrt::runtime
