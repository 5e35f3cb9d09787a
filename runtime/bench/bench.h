// Measurements against ceilings taken in the same run. All ranks run at once in every measurement, as they do in
// training.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "runtime/config/config.h"
#include "runtime/data/sample_rows.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread(std::vector<double> values);

double cpu_seconds();  // of this process so far, in user and kernel mode

// Calls body(rank) on `ranks` threads that start together; returns the seconds until the last is done.
double time_ranks(int ranks, int threads_per_rank, const std::function<void(int rank)>& body);

// Called between measurements with what is being measured.
using Progress = std::function<void(const std::string& what)>;

struct SaveBench {
  uint64_t bytes = 0;                 // of one checkpoint
  Spread step_seconds;                // without a save in flight
  Spread stall_seconds;               // training stands still while states are copied
  Spread write_seconds;               // from the copy to the commit, beside training
  Spread extra_seconds;               // by which a save lengthens the steps beside it, the stall included
  double disk_bytes_per_second = 0;   // ceiling: one file of that size, written and synced with nothing else running
  double write_bytes_per_second = 0;  // from the median
  double verify_seconds = 0, load_seconds = 0;   // to resume: every byte hashed, then states in place
  uint64_t host_planned = 0, host_measured = 0;  // of a rank's copies
};
// Rounds of steps without and with a save, in turn; checkpoints go below `folder`, which is left empty.
SaveBench bench_save(const Config& config, int rounds, const std::string& folder, const Progress& progress);

// Random tokens as functions of (step, sample, position).
std::function<void(int rank, uint32_t microbatch, const data::SampleRows& to)> random_batches(Layout layout,
                                                                                              const uint32_t& step);

// AdamW steps this on each rank's arena, with one thread a rank.
struct AdamBenchSetting {
  int64_t parameters = 0;  // of a rank, a multiple of 64
  bool bf16 = false;       // gradients of bf16, and a copy of the new weights in bf16
  optimizer::Moments moments = optimizer::Moments::f32;
  core::Tier tier = core::Tier::device;
  core::DeviceKind device = core::DeviceKind::cpu;  // cuda: the host tier is pinned; the host computes all the same
  int ranks = 1, rounds = 1;
};
struct AdamBench {
  std::string grad_type;
  double bytes_per_parameter = 0;                               // read and written by a step
  Spread adam_bytes_per_second, triad_bytes_per_second, ratio;  // pairs in turn
};
// One AdamW step: fp32 weight and moments read and written, gradient read, with bf16 gradients also the bf16 copy of
// the weights written. The triad is a = b + s · c over the same threads and memory.
AdamBench bench_adam(const AdamBenchSetting& setting, const Progress& progress);

struct CommBenchRow {
  std::string operation;
  Spread bytes_per_second;  // buffer size ÷ time
  Spread of_copy;           // ÷ every rank copying a buffer of that size at once, in pairs
};
// Collective over processes; with several of them times include the barrier after the operation.
std::vector<CommBenchRow> bench_comm(int64_t bytes, comm::Transport& transport, int rounds, const Progress& progress);

}  // namespace zrt::runtime
