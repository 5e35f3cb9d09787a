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

namespace zrt::runtime {

// A quantity at some sizes; between them it follows straight lines on logarithmic scales, beyond them it stays.
struct Curve {
  struct Point {
    double at, value;  // both positive; `at` ascending
  };
  std::vector<Point> points;
  double operator()(double at) const;
};

// What one rank computes in one type. Efficiencies are shares of the peak.
struct ComputeRates {
  double peak_flops_per_second = 0;
  Curve gemm;                // efficiency by the smallest dimension of the product
  Curve attention_forward;   // … of causal attention by the length of the sequence; half of the square is counted
  Curve attention_backward;  // … for two and a half times the FLOPs of the forward
  double pass_bytes_per_second = 0;  // activations through norms, activation functions, residual sums
  double sum_bytes_per_second = 0;   // what a reduction adds up: all ranks' shares of what it receives
  double gemm_seconds(double smallest_dimension, double flops) const;
};

struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // one direction
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
  std::optional<double> host_memory_bytes_per_second;  // … of what a rank computes on the host; none: as above
  double op_seconds = 0;                               // what starting an op costs its lane
  Link inside_host;                                    // of a rank
  std::optional<Link> between_hosts;                   // of a host, shared by its ranks; none: there is one host
  Exchange exchange = Exchange::once_per_host;
  // A run may differ from the cluster's usual: NCCL orders the sums of groups that it connects (parallel.sums fast),
  // and connects ranks inside hosts, too (--transport nccl).
  bool fast_sums = false, nccl_inside_hosts = false;
  Overlap overlap_inside, overlap_between;
  std::optional<Overlap> overlap_host;                  // `comm`: of the host lane; none: see beside_host()
  Link host_link;                                       // of a rank, between device and host memory, each way
  Link disk;                                            // of a host, shared by its ranks: writes
  std::optional<double> disk_read_bytes_per_second;     // none: as fast as writes
  std::array<uint64_t, core::tier_count> tier_bytes{};  // device of a rank, host and nvme of a host
  uint64_t reserved_bytes = 0;                          // of a device, for what no plan knows: context, kernels, NCCL

  // Of the compute lane of ranks on `device` and their host lane.
  Overlap beside_host(core::DeviceKind device) const;
  // Throws ConfigError naming the types that the cluster has when it is none of them.
  const ComputeRates& rates(core::DType type) const;
};

// Throws ConfigError naming the file, the key, its value and what is legal.
Cluster load_cluster(const std::filesystem::path& file);

// A file, or the name of one that is installed with zrt ("dgx-a100"). Throws like load_cluster, and with the names that
// exist when it is neither.
Cluster find_cluster(const std::string& name_or_file);
std::vector<std::string> cluster_names();

}  // namespace zrt::runtime
