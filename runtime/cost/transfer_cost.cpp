// Prices what goes through memory, crosses the link between device and host, or is written to a file and read from it.
#include <algorithm>

#include "runtime/cost/cost.h"

namespace zrt::runtime {
namespace {

// `slowed_to`: the run's own limit; 0 for none.
OpCost over_link(double bytes, double slowed_to, Resource direction, const Cluster& cluster) {
  const Link& link = cluster.host_link;
  const double rate = slowed_to > 0 ? std::min(slowed_to, link.bytes_per_second) : link.bytes_per_second;
  return {cluster.op_seconds + link.latency_seconds + bytes / rate, direction};
}

// All ranks of the host move as much, whatever stage they are of, so all of them use its disk at the same time.
OpCost at_disk(double bytes, double rate, const Layout& layout, const Cluster& cluster) {
  const int ranks = std::min(layout.mesh.world(), cluster.ranks_per_host);
  return {cluster.op_seconds + cluster.disk.latency_seconds + bytes * ranks / rate, Resource::disk};
}

}  // namespace

OpCost memory_cost(double bytes, bool on_host, const Cluster& cluster) {
  const double rate = on_host ? cluster.host_memory_bytes_per_second.value_or(cluster.memory_bytes_per_second)
                              : cluster.memory_bytes_per_second;
  return {cluster.op_seconds + bytes / rate, on_host ? Resource::host : Resource::compute};
}

OpCost link_cost(double bytes, Resource direction, const Cluster& cluster) {
  return over_link(bytes, 0, direction, cluster);
}

OpCost transfer_cost(const Moved& bytes, const Layout& layout, const Cluster& cluster) {
  const auto of = [](uint64_t count) { return static_cast<double>(count); };
  const double writes = cluster.disk.bytes_per_second;
  if (bytes.written > 0) return at_disk(of(bytes.written), writes, layout, cluster);
  if (bytes.read > 0) {
    return at_disk(of(bytes.read), cluster.disk_read_bytes_per_second.value_or(writes), layout, cluster);
  }
  if (bytes.to_device > 0) {
    return over_link(of(bytes.to_device), layout.link_bytes_per_second, Resource::link_up, cluster);
  }
  return over_link(of(bytes.to_host), layout.link_bytes_per_second, Resource::link_down, cluster);
}

}  // namespace zrt::runtime
