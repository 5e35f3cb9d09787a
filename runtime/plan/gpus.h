// Chooses the GPU of each rank of a process.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "core/device.h"

namespace zrt::runtime {

// The ranks of a host, and those of them that live in this process.
struct HostRanks {
  int count = 1;
  int first = 0, local = count;
};
HostRanks host_ranks(const comm::Transport& transport);

// Gives each of the ranks of this process, in order, the number of a GPU of its own. With `share` (run.share_gpu) ranks
// take turns where there are more of them than GPUs. A process of several that sees one GPU takes that: its launcher
// will have given the others other ones. Empty on the CPU. Throws ConfigError where there are too few GPUs, or those
// that would be taken are of several kinds, whose kernels differ.
std::vector<int> choose_gpus(core::DeviceKind device, const HostRanks& ranks, bool share);

// Counts the ranks of the GPU that has most of them; 1 on the CPU.
int ranks_per_gpu(const std::vector<int>& gpus);

// A rank's share is judged by the GPU with the most ranks and by that with the least free memory.
struct GpuRoom {
  uint64_t ranks = 1, free_bytes = 0;
};
GpuRoom gpu_room(const std::vector<int>& gpus);

// Says which ranks of a run share a machine, which read each other's GPUs, and which GPU each has.
struct RunPlace {
  int host_ranks = 0;                // that share this machine's memory; 0: all
  int ranks_in_reach = 0;            // Config::ranks_in_reach
  std::optional<GpuRoom> room{};     // that all processes have agreed on; none: this process's GPUs decide
  std::vector<std::string> lines{};  // of all ranks on GPUs (gpu_lines), and how they exchange
};
// On GPUs each process chooses (choose_gpus) and all agree. In reach are the ranks of a host where all hosts have as
// many and ranks fill one after the other, else none. Where processes have GPUs that cannot read each other's memory,
// NCCL connects all; where they share a GPU, sets NCCL_HOSTID, without which NCCL refuses that. Collective; before
// groups are made. Throws ConfigError in every process where two ranks have the same GPU without `share`
// (run.share_gpu), where GPUs of the run are of several kinds, and where nothing connects them.
RunPlace run_place(comm::Transport& transport, core::DeviceKind device, bool share, std::chrono::milliseconds timeout);

// "rank 0: host a, GPU 0, NVIDIA H100 80GB HBM3, GPU-8f1c…, NUMA node 0", from `first_rank` on.
std::vector<std::string> gpu_lines(const std::vector<int>& gpus, int first_rank);

}  // namespace zrt::runtime
