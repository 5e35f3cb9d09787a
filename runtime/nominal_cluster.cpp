#include "runtime/nominal_cluster.h"

namespace zrt::runtime {
namespace {

Cluster make(double flops, double memory, double op_seconds, double link, double disk) {
  Cluster cluster;
  cluster.name = "a machine of today";
  cluster.ranks_per_host = 1 << 20;
  ComputeRates rates;
  rates.peak_flops_per_second = flops;
  rates.gemm = {{{64, 0.3}, {1024, 0.6}}};
  rates.attention_forward = rates.attention_backward = {{{128, 0.2}, {1024, 0.4}}};
  rates.pass_bytes_per_second = rates.sum_bytes_per_second = memory;
  cluster.compute = {rates, rates, rates};
  cluster.memory_bytes_per_second = memory;
  cluster.op_seconds = op_seconds;
  cluster.inside_host = {op_seconds, memory / 4};
  cluster.host_link = {op_seconds, link};
  cluster.disk = {1e-4, disk};
  return cluster;
}

}  // namespace

const Cluster& nominal_cluster(core::DeviceKind device) {
  static const Cluster cpu = make(5e11, 1e10, 1e-5, 1e10, 2e9), gpu = make(8e14, 3e12, 1e-5, 5e10, 5e9);
  return device == core::DeviceKind::cuda ? gpu : cpu;
}

}  // namespace zrt::runtime
