// Measures this machine's constants for the simulator, with all ranks running, and writes them as a cluster's file.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "core/stream.h"
#include "runtime/bench/bench.h"
#include "runtime/cost/cluster.h"

namespace zrt::runtime {

// Says how much a calibration measures. The quick one shows that all works; its figures are of no use.
struct Effort {
  int sweeps = 3;  // over all sizes: what disturbs the machine for a while disturbs one value of each
  int64_t largest_width = 1024, longest_sequence = 2048;
  int64_t rows = 1024;            // of products and passes
  int64_t overlap_width = 384;    // of the products that something else runs beside
  int64_t parameters = 16 << 20;  // of the update, per rank
  int64_t collective_bytes = 32 << 20;
  uint64_t disk_bytes = 256 << 20;
};
inline constexpr Effort quick_effort{1, 64, 64, 128, 64, 1 << 20, 1 << 20, 1 << 20};
inline constexpr Effort gpu_effort{3, 8192, 8192, 8192, 4096, 64 << 20, 256 << 20, 256 << 20};

// The ranks of a calibration: local ones as threads, each with a GPU of its own where GPUs are measured, and those of
// other processes, which measure at the same time.
class Rig {
 public:
  // Several ranks take turns on a GPU with `share_gpu`. Throws ConfigError where there are too few GPUs.
  Rig(comm::Transport& transport, core::DeviceKind device, bool share_gpu, int threads, Effort effort,
      Progress progress);

  int local() const { return transport_.local_count(); }
  int world() const { return transport_.world(); }
  int on_host() const { return transport_.host_count(); }
  int threads() const { return threads_; }
  core::DeviceKind device() const { return device_; }
  bool on_gpu() const { return device_ == core::DeviceKind::cuda; }
  const std::vector<int>& gpus() const { return gpus_; }  // by local rank; empty on the CPU
  const Effort& effort() const { return effort_; }
  comm::Communicator& group(int rank) { return *group_[static_cast<size_t>(rank)]; }
  // Memory of the device tier or, pinned beside a GPU, of the host tier; filled with small values of any type.
  std::unique_ptr<core::Arena> arena(int rank, uint64_t bytes, core::Tier tier = core::Tier::device);
  void tell(const std::string& what) const { progress_(what); }

  // Calls body where a rank computes and waits for what it has queued there: on a GPU by one of two streams.
  void at(int rank, int stream, const std::function<void()>& body);
  core::Stream& stream(int rank, int number) {
    return *streams_[static_cast<size_t>(rank)][static_cast<size_t>(number)];
  }

  struct Way {
    bool together = false;  // a body is collective: all ranks make the same number of calls
    bool on_host = false;   // it runs on the host's threads, whatever the device
  };
  // Seconds of one call of body(rank) on all ranks at once, where they compute: the median over rounds, each of as many
  // calls as last long enough to time.
  double seconds(const std::function<void(int rank)>& body, Way way);
  double seconds(const std::function<void(int rank)>& body) { return seconds(body, Way{}); }

 private:
  double round(const std::function<void(int rank)>& body, int calls, Way way);

  comm::Transport& transport_;
  const core::DeviceKind device_;
  const int threads_;
  const Effort effort_;
  Progress progress_;
  std::vector<int> gpus_;
  std::vector<std::array<std::unique_ptr<core::Stream>, 2>> streams_;  // by local rank
  std::vector<std::unique_ptr<comm::Communicator>> group_;
};

// Products, attention and passes of one type; values in FLOP/s.
struct MeasuredCompute {
  std::vector<Curve::Point> gemm, attention_forward, attention_backward;
  double pass_bytes_per_second = 0;
};
MeasuredCompute measure_compute(Rig& rig, core::DType type);

struct MeasuredLanes {
  double triad_bytes_per_second = 0;   // reads and writes, that of the lines to be written included; 0 on a GPU
  double update_bytes_per_second = 0;  // AdamW: what zrt does with memory outside blocks
  double copy_bytes_per_second = 0;    // of bytes copied
  double link_bytes_per_second = 0;    // between host and device in the slower direction; of a CPU as copies
  double op_seconds = 0;
  std::optional<Link> inside, between;
  Overlap overlap_inside, overlap_between;
  std::array<double, 3> sum_bytes_per_second{};  // fp32, bf16, fp16
};
MeasuredLanes measure_lanes(Rig& rig);

// Measures the speeds of a product and of `other`, which runs on `threads` threads of its own, while both run, as
// shares of those alone.
Overlap measure_overlap(Rig& rig, const std::function<void(int rank)>& other, Rig::Way way, int threads);

// Figures of the tiers behind device memory.
struct MeasuredTiers {
  Link disk;  // of a host; writes
  double disk_read_bytes_per_second = 0;
  Overlap beside_host;  // products beside AdamW
};
MeasuredTiers measure_tiers(Rig& rig, const std::string& folder);

// Tells such a file from others; stands near its begin.
inline constexpr const char* calibration_mark = "ranks of this calibration on one machine";

struct Calibration {
  core::DeviceKind device = core::DeviceKind::cpu;
  bool share_gpu = false;
  int threads = 1;  // of a rank
  Effort effort;
  std::string folder;  // on the drive to measure
};

// Returns the text of a cluster's file. Collective over processes; the disk is measured by files as the NVMe tier has
// them.
std::string calibrate(comm::Transport& transport, const Calibration& what, const Progress& progress);

}  // namespace zrt::runtime
