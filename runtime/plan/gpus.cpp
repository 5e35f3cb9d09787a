#include "runtime/plan/gpus.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/gpu.h"

namespace zrt::runtime {

std::vector<int> choose_gpus(core::DeviceKind device, int ranks, bool share) {
  if (device != core::DeviceKind::cuda) return {};
  const int count = core::gpu_count();
  if (count == 0) throw core::ConfigError("there is no GPU that can be used; use --device cpu");
  if (ranks > count && !share) {
    throw core::ConfigError(fmt::format(
        "{} ranks on this host need a GPU each, and this process sees {}. Use --ranks {}, or let ranks take "
        "turns on a GPU with run.share_gpu = true, which is slower. CUDA_VISIBLE_DEVICES limits what is "
        "seen.",
        ranks, count, count));
  }
  std::vector<int> gpus;
  gpus.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) gpus.push_back(rank % count);
  const std::string name = core::gpu_name(0);
  for (int gpu = 1; gpu < std::min(ranks, count); ++gpu) {
    if (const std::string other = core::gpu_name(gpu); other != name) {
      throw core::ConfigError(
          fmt::format("GPU 0 is '{}' and GPU {} is '{}': the ranks of a run need GPUs of one kind. Choose some by "
                      "CUDA_VISIBLE_DEVICES.",
                      name, gpu, other));
    }
  }
  return gpus;
}

int ranks_per_gpu(const std::vector<int>& gpus) {
  std::map<int, int> ranks;
  int most = 1;
  for (const int gpu : gpus) most = std::max(most, ++ranks[gpu]);
  return most;
}

GpuRoom gpu_room(const std::vector<int>& gpus) {
  GpuRoom room{static_cast<uint64_t>(ranks_per_gpu(gpus)), ~uint64_t{0}};
  for (const int gpu : std::set<int>(gpus.begin(), gpus.end())) {
    room.free_bytes = std::min(room.free_bytes, core::free_gpu_bytes(gpu));
  }
  return room;
}

std::vector<std::string> gpu_lines(const std::vector<int>& gpus, int first_rank) {
  std::vector<std::string> lines;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  for (size_t i = 0; i < gpus.size(); ++i) {
    const core::GpuInfo info = core::gpu_info(gpus[i]);
    lines.push_back(fmt::format("rank {}: host {}, GPU {}, {}, {}{}", first_rank + static_cast<int>(i), host, gpus[i],
                                info.name, info.uuid,
                                info.numa_node < 0 ? "" : fmt::format(", NUMA node {}", info.numa_node)));
  }
  return lines;
}

}  // namespace zrt::runtime
