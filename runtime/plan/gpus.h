// Chooses the GPU of each rank of a process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"

namespace zrt::runtime {

// Gives each of the ranks on this host, in order, the number of a GPU of its own. With `share` (run.share_gpu) ranks
// take turns where there are more of them than GPUs. Empty on the CPU. Throws ConfigError where there are too few GPUs,
// or those that would be taken are of several kinds, whose kernels differ.
std::vector<int> choose_gpus(core::DeviceKind device, int ranks, bool share);

// Counts the ranks of the GPU that has most of them; 1 on the CPU.
int ranks_per_gpu(const std::vector<int>& gpus);

// A rank's share is judged by the GPU with the most ranks and by that with the least free memory.
struct GpuRoom {
  uint64_t ranks = 1, free_bytes = 0;
};
GpuRoom gpu_room(const std::vector<int>& gpus);

// "rank 0: host a, GPU 0, NVIDIA H100 80GB HBM3, GPU-8f1c…, NUMA node 0", from `first_rank` on.
std::vector<std::string> gpu_lines(const std::vector<int>& gpus, int first_rank);

}  // namespace zrt::runtime
