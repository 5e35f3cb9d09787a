#include "runtime/cost/cluster.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/keys/text.h"

namespace zrt::runtime {

// Both lanes run on the cores of a CPU that plays the device, and so that neither is promised more than it may get,
// each has half of them.
Overlap Cluster::beside_host(core::DeviceKind device) const {
  if (overlap_host) return *overlap_host;
  return device == core::DeviceKind::cpu ? Overlap{0.5, 0.5} : Overlap{};
}

const ComputeRates& Cluster::rates(core::DType type) const {
  const auto index = static_cast<size_t>(type);
  if (index < compute.size() && compute[index]) return *compute[index];
  std::vector<std::string> known;
  for (size_t i = 0; i < compute.size(); ++i) {
    if (compute[i]) known.emplace_back(core::dtype_name(static_cast<core::DType>(i)));
  }
  throw core::ConfigError(
      fmt::format("cluster {} has no rates for {}; it has {}. Train in one of these, or add the "
                  "section compute.{} to its file.",
                  name, core::dtype_name(type), core::keys::join(known), core::dtype_name(type)));
}

}  // namespace zrt::runtime
