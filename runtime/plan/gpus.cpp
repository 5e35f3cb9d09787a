#include "runtime/plan/gpus.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/gpu.h"

namespace zrt::runtime {

HostRanks host_ranks(const comm::Transport& transport) {
  return {transport.host_count(), transport.host_place(), transport.local_count()};
}

std::vector<int> choose_gpus(core::DeviceKind device, const HostRanks& ranks, bool share) {
  if (device != core::DeviceKind::cuda) return {};
  const int count = core::gpu_count();
  if (count == 0) throw core::ConfigError("there is no GPU that can be used; use --device cpu");
  const bool own = count == 1 && ranks.local == 1;  // whose it is shows when all have said (agree_on_gpus)
  if (ranks.count > count && !share && !own) {
    throw core::ConfigError(fmt::format(
        "{} ranks on this host need a GPU each, and this process sees {}. Use --ranks {}, or let ranks take "
        "turns on a GPU with run.share_gpu = true, which is slower. CUDA_VISIBLE_DEVICES limits what is "
        "seen.",
        ranks.count, count, count));
  }
  std::vector<int> gpus;
  gpus.reserve(static_cast<size_t>(ranks.local));
  for (int rank = ranks.first; rank < ranks.first + ranks.local; ++rank) gpus.push_back(rank % count);
  const std::string name = core::gpu_name(0);
  for (int gpu = 1; gpu < std::min(ranks.count, count); ++gpu) {
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

namespace {

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

// The number by which this process sees a GPU of this host; -1 where it does not.
int number_of(const std::string& uuid) {
  for (int number = 0; number < core::gpu_count(); ++number) {
    if (core::gpu_info(number).uuid == uuid) return number;
  }
  return -1;
}

// Processes open each other's memory, and take NCCL where a pair of GPUs cannot be connected so. Returns that pair.
std::string connect(comm::Transport& transport, const std::vector<int>& gpus, const std::set<std::string>& others,
                    std::chrono::milliseconds timeout) {
  if (transport.local_count() == transport.world() || !transport.reads_gpus_of_peers()) return "";
  std::set<int> numbers(gpus.begin(), gpus.end());
  for (const std::string& uuid : others) numbers.insert(number_of(uuid));
  numbers.erase(-1);
  const std::string own = core::unconnectable_gpus(std::vector<int>(numbers.begin(), numbers.end()));
  for (const std::string& apart : transport.exchange(own, timeout)) {
    if (apart.empty()) continue;
    try {
      transport.connect_gpus_by_nccl();
    } catch (const core::ConfigError& error) {
      const std::string threads =
          transport.host_count() < transport.world()
              ? ""
              : fmt::format(
                    ". Or let the {} ranks be threads of one process, which copy through the host: --ranks without "
                    "zrt ranks, or zrt launch without --processes",
                    transport.world());
      throw core::ConfigError(
          fmt::format("GPUs {} cannot read each other's memory, as processes would have to, and NCCL cannot "
                      "connect them: {}{}",
                      apart, error.what(), threads));
    }
    return apart;
  }
  return "";
}

// NCCL takes two processes of one host with one GPU for a mistake. It finds out which host it is on by this variable
// where that is set, and reads it when it connects its first group.
void let_nccl_share(const comm::Transport& transport) {
  setenv("NCCL_HOSTID", fmt::format("{}-rank{}", host_name(), transport.first_local()).c_str(), 0);
}

// Fills in the room and the lines.
void agree(comm::Transport& transport, const std::vector<int>& gpus, bool share, std::chrono::milliseconds timeout,
           RunPlace& place) {
  std::string own;  // a rank: its line, its GPU, that one's name and free bytes, each on a line
  const std::vector<std::string> lines = gpu_lines(gpus, transport.first_local());
  for (size_t i = 0; i < gpus.size(); ++i) {
    const core::GpuInfo info = core::gpu_info(gpus[i]);
    own +=
        fmt::format("{}\n{}/{}\n{}\n{}\n", lines[i], host_name(), info.uuid, info.name, core::free_gpu_bytes(gpus[i]));
  }
  std::map<std::string, std::vector<int>> ranks_of;
  std::string first_name;
  GpuRoom room{1, ~uint64_t{0}};
  std::set<std::string> of_host;
  int rank = 0;
  for (const std::string& text : transport.exchange(own, timeout)) {
    std::istringstream in(text);
    std::string line, gpu, name, free_bytes;
    while (std::getline(in, line) && std::getline(in, gpu) && std::getline(in, name) && std::getline(in, free_bytes)) {
      place.lines.push_back(line);
      if (gpu.starts_with(host_name() + "/")) of_host.insert(gpu.substr(gpu.find('/') + 1));
      std::vector<int>& ranks = ranks_of[gpu];
      ranks.push_back(rank++);
      if (first_name.empty()) first_name = name;
      if (name != first_name) {
        throw core::ConfigError(
            fmt::format("rank 0 has a '{}' and rank {} a '{}': the ranks of a run need GPUs of one kind", first_name,
                        rank - 1, name));
      }
      if (ranks.size() > 1 && !share) {
        throw core::ConfigError(
            fmt::format("ranks {} and {} have the same GPU, {}. Give each process one of its own "
                        "(CUDA_VISIBLE_DEVICES), or let them "
                        "take turns with run.share_gpu = true, which is slower",
                        ranks[0], ranks[1], gpu.substr(gpu.find('/') + 1)));
      }
      room.ranks = std::max<uint64_t>(room.ranks, ranks.size());
      room.free_bytes = std::min<uint64_t>(room.free_bytes, std::stoull(free_bytes));
    }
  }
  const std::string apart = connect(transport, gpus, of_host, timeout);
  if (room.ranks > 1 && transport.local_count() < transport.world()) let_nccl_share(transport);
  if (!apart.empty()) place.lines.push_back(fmt::format("GPUs {} cannot read each other's memory", apart));
  if (const std::string ways = transport.gpu_ways(); !ways.empty()) place.lines.push_back(ways);
  place.room = room;
}

}  // namespace

RunPlace run_place(comm::Transport& transport, core::DeviceKind device, bool share, std::chrono::milliseconds timeout) {
  RunPlace place{transport.host_count(), 0, std::nullopt, {}};
  if (device != core::DeviceKind::cuda) return place;
  agree(transport, choose_gpus(device, host_ranks(transport), share), share, timeout, place);
  const bool in_a_row = transport.first_local() % transport.host_count() == transport.host_place();
  const int own = in_a_row && transport.reads_gpus_of_peers() ? transport.host_count() : 1;
  const std::string text = std::to_string(own);
  const std::vector<std::string> all = transport.exchange(text, timeout);
  const bool alike = std::count(all.begin(), all.end(), text) == static_cast<std::ptrdiff_t>(all.size());
  place.ranks_in_reach = alike ? own : 1;
  return place;
}

std::vector<std::string> gpu_lines(const std::vector<int>& gpus, int first_rank) {
  std::vector<std::string> lines;
  const std::string host = host_name();
  for (size_t i = 0; i < gpus.size(); ++i) {
    const core::GpuInfo info = core::gpu_info(gpus[i]);
    lines.push_back(fmt::format("rank {}: host {}, GPU {}, {}, {}{}", first_rank + static_cast<int>(i), host, gpus[i],
                                info.name, info.uuid,
                                info.numa_node < 0 ? "" : fmt::format(", NUMA node {}", info.numa_node)));
  }
  return lines;
}

}  // namespace zrt::runtime
