#include "runtime/cost/nominal_cluster.h"

namespace zrt::runtime {
namespace {

ComputeRates rates(double peak, double memory, const Curve& gemm, const Curve& attention) {
  return {peak, gemm, attention, attention, memory, memory};
}

// One thread of a server's processor per rank, with AVX-512 and bf16 in hardware.
Cluster make_cpu() {
  Cluster cluster;
  cluster.name = "a CPU of today";
  cluster.ranks_per_host = 8;
  const double memory = 1e10;
  const Curve gemm{{{32, 0.3}, {256, 0.8}, {1024, 1}}}, attention{{{64, 0.1}, {1024, 0.3}}};
  cluster.compute = {rates(1e11, memory, gemm, attention), rates(2.5e11, memory, gemm, attention),
                     rates(1e11, memory, gemm, attention)};
  cluster.memory_bytes_per_second = memory;
  cluster.op_seconds = 2e-5;
  cluster.inside_host = {2e-5, 4e9};
  cluster.between_hosts = {1e-4, 1e10};
  cluster.overlap_inside = {0.6, 0.6};
  cluster.overlap_between = {0.9, 0.9};
  cluster.host_link = {1e-5, 1e10};
  cluster.disk = {1e-4, 2e9};
  cluster.disk_read_bytes_per_second = 3e9;
  cluster.tier_bytes = {16'000'000'000, 128'000'000'000, 2'000'000'000'000};
  return cluster;
}

// A host of eight GPUs such as the H100.
Cluster make_gpu() {
  Cluster cluster;
  cluster.name = "a GPU of today";
  cluster.ranks_per_host = 8;
  const double memory = 2.8e12;
  const Curve gemm{{{64, 0.03}, {1024, 0.45}, {4096, 0.62}}}, attention{{{128, 0.15}, {8192, 0.5}}};
  cluster.compute = {rates(6e13, memory, gemm, attention), rates(9.9e14, memory, gemm, attention),
                     rates(9.9e14, memory, gemm, attention)};
  cluster.memory_bytes_per_second = memory;
  cluster.host_memory_bytes_per_second = 4e10;
  cluster.op_seconds = 2e-5;
  cluster.inside_host = {2e-6, 3.6e11};
  cluster.between_hosts = {5e-6, 3.6e11};
  cluster.overlap_inside = cluster.overlap_between = {0.95, 0.95};
  cluster.host_link = {1e-5, 5e10};
  cluster.disk = {1e-4, 3e10};
  cluster.disk_read_bytes_per_second = 5e10;
  cluster.tier_bytes = {80'000'000'000, 2'000'000'000'000, 30'000'000'000'000};
  return cluster;
}

}  // namespace

const Cluster& nominal_cluster(core::DeviceKind device) {
  static const Cluster cpu = make_cpu(), gpu = make_gpu();
  return device == core::DeviceKind::cpu ? cpu : gpu;
}

}  // namespace zrt::runtime
