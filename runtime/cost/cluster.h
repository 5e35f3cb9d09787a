// The constants of a cluster that the simulator needs. A file (share/clusters/*.json, or made by `zrt bench calibrate`)
// holds them, each with the source it comes from. Rates are those of one rank while all ranks of its host run.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/host_spread.h"
#include "core/ledger.h"
#include "runtime/cost/compute_rates.h"
#include "runtime/cost/reserved.h"
#include "runtime/cost/software.h"

namespace zrt::runtime {

struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // one direction
  double base_seconds = 0;      // of a collective of NCCL, beside its hops
  Curve by_ranks{};             // bytes per second of as many ranks, in place of bytes_per_second; may be empty
  double rate(int ranks) const { return by_ranks.points.empty() ? bytes_per_second : by_ranks(ranks); }
};

// Speeds of the compute lane and of a comm lane while both are busy, as shares of what each does alone.
struct Overlap {
  double compute = 1, comm = 1;
};

// A gather of a host's ranks takes each byte over the host's link once with NCCL's rings, else once for each rank. Sums
// have ways of their own (cost.h).
enum class Exchange : uint8_t { once_per_host, once_per_rank };

using core::Distribution;
using core::host_spread;
using core::HostSpread;

struct Cluster {
  std::string name;
  int ranks_per_host = 1;
  Distribution distribution = Distribution::block;
  std::array<std::optional<ComputeRates>, 3> compute;  // fp32, bf16, fp16: the order of core::DType
  double memory_bytes_per_second = 0;                  // reads and writes together
  std::optional<double> host_memory_bytes_per_second;  // by what a rank computes on the host; none: as above
  double op_seconds = 0;                               // what starting an op costs its lane
  Link inside_host;                                    // of a rank
  std::optional<Link> between_hosts;                   // of a host, shared by its ranks; none: there is one host
  std::optional<int> most_hosts;                       // that it connects; none: any number
  Exchange exchange = Exchange::once_per_host;
  Software software;
  // A run may differ from the cluster's usual: NCCL orders the sums of groups that it connects (parallel.sums fast),
  // and connects ranks inside hosts, too (--transport nccl).
  bool fast_sums = false, nccl_inside_hosts = false;
  Overlap overlap_inside, overlap_between;
  std::optional<Overlap> overlap_host;                  // `comm`: of the host lane; none: see beside_host()
  Link host_link;                                       // of a rank, between device and host memory, each way
  Link disk;                                            // of a host, shared by its ranks: writes
  std::optional<double> disk_read_bytes_per_second;     // none: as fast as writes
  std::optional<double> drive_endurance_bytes;          // writes that the drives of a host are made for
  std::optional<double> host_watts;                     // of a host at full power
  std::array<uint64_t, core::tier_count> tier_bytes{};  // device of a rank, host and nvme of a host
  Reserved reserved;                                    // of a device

  // Returns the speeds of the compute lane of ranks on `device` and of their host lane while both are busy.
  Overlap beside_host(core::DeviceKind device) const;
  // Throws ConfigError naming the types that the cluster has when it is none of them.
  const ComputeRates& rates(core::DType type) const;
};

// `software`: a name in the file's section; "" for zrt. Throws ConfigError naming the file, the key, its value and what
// is legal.
Cluster load_cluster(const std::filesystem::path& file, const std::string& software = "");

// A file, or the name of one that is installed with zrt ("dgx-a100"); ":SOFTWARE" may follow. Throws like load_cluster,
// and with the names that exist when it is neither.
Cluster find_cluster(const std::string& wanted);
std::vector<std::string> cluster_names();

}  // namespace zrt::runtime
