// Measures this machine's constants for the simulator, with all ranks running, and writes them as a cluster's file.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "runtime/bench/bench.h"
#include "runtime/cost/cluster.h"

namespace zrt::runtime {

// How much a calibration measures. The quick one shows that all works; its figures are of no use.
struct Effort {
  int sweeps = 3;  // over all sizes: what disturbs the machine for a while disturbs one value of each
  int64_t largest_width = 1024, longest_sequence = 2048;
  int64_t parameters = 16 << 20;  // of the update, per rank
  int64_t collective_bytes = 32 << 20;
  uint64_t disk_bytes = 256 << 20;
};
inline constexpr Effort quick_effort{1, 64, 64, 1 << 20, 1 << 20, 1 << 20};

// The ranks of a calibration: local ones as threads, and those of other processes, which measure at the same time.
class Rig {
 public:
  Rig(comm::Transport& transport, int threads, Effort effort, Progress progress);

  int local() const { return transport_.local_count(); }
  int world() const { return transport_.world(); }
  int on_host() const { return transport_.host_count(); }
  int threads() const { return threads_; }
  const Effort& effort() const { return effort_; }
  comm::Communicator& group(int rank) { return *group_[static_cast<size_t>(rank)]; }
  std::unique_ptr<core::Arena> arena(int rank, uint64_t bytes);  // filled with small values of any type
  void tell(const std::string& what) const { progress_(what); }

  // Seconds of one call of body(rank) on all ranks at once: the median over rounds, each of as many calls as last long
  // enough to time. With `together` a body is collective: all ranks make the same number of calls.
  double seconds(const std::function<void(int rank)>& body, bool together = false);

 private:
  double round(const std::function<void(int rank)>& body, int calls);

  comm::Transport& transport_;
  const int threads_;
  const Effort effort_;
  Progress progress_;
  std::vector<std::unique_ptr<comm::Communicator>> group_;
};

// Products, attention and passes of one type; values in FLOP/s.
struct MeasuredCompute {
  std::vector<Curve::Point> gemm, attention_forward, attention_backward;
  double pass_bytes_per_second = 0;
};
MeasuredCompute measure_compute(Rig& rig, core::DType type);

struct MeasuredLanes {
  double triad_bytes_per_second = 0;   // reads and writes, that of the lines to be written included
  double update_bytes_per_second = 0;  // AdamW: what zrt does with memory outside blocks
  double copy_bytes_per_second = 0;    // of bytes copied
  double op_seconds = 0;
  std::optional<Link> inside, between;
  Overlap overlap_inside, overlap_between;
  std::array<double, 3> sum_bytes_per_second{};  // fp32, bf16, fp16
};
MeasuredLanes measure_lanes(Rig& rig);

// Speeds of a product and of `other`, which runs on `threads` threads of its own, while both run, of those alone. With
// `together`, `other` is collective.
Overlap measure_overlap(Rig& rig, const std::function<void(int rank)>& other, bool together, int threads);

// What lies behind device memory.
struct MeasuredTiers {
  Link disk;  // of a host; writes
  double disk_read_bytes_per_second = 0;
  Overlap beside_host;  // products beside AdamW
};
MeasuredTiers measure_tiers(Rig& rig, const std::string& folder);

// Tells such a file from others; stands near its begin.
inline constexpr const char* calibration_mark = "ranks of this calibration on one machine";

// The text of a cluster's file. Collective over processes; the disk is measured in `folder`, by files as the NVMe tier
// has them.
std::string calibrate(comm::Transport& transport, int threads, const Effort& effort, const std::string& folder,
                      const Progress& progress);

}  // namespace zrt::runtime
