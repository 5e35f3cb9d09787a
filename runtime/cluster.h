// The constants of a cluster that the simulator needs. A file (share/clusters/*.json, or made by `zrt bench calibrate`)
// holds them with the source of every figure.
#pragma once
#include <filesystem>
#include <string>

namespace zrt::runtime {

struct Cluster {
  std::string name;
  int ranks_per_host = 1;
  // Filled in by the simulator's author: FLOP/s by GEMM size, memory bandwidth, link latency and bandwidth inside and
  // between hosts, what lanes share, memory per tier.
};

// Throws ConfigError naming the file, the key, its value and what is legal.
Cluster load_cluster(const std::filesystem::path& file);

}  // namespace zrt::runtime
