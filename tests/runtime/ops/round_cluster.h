// A cluster of round numbers, by which costs are reckoned by hand.
#pragma once
#include "runtime/cost/cluster.h"

namespace zrt::testing {

using runtime::Cluster;

inline Cluster cluster_of(int ranks_per_host) {
  Cluster cluster;
  cluster.name = "test";
  cluster.ranks_per_host = ranks_per_host;
  runtime::ComputeRates rates;
  rates.peak_flops_per_second = 1e9;
  rates.gemm = {{{1, 0.5}}};
  rates.attention_forward = {{{1, 0.25}}};
  rates.attention_backward = {{{1, 0.125}}};
  rates.pass_bytes_per_second = 1e6;
  rates.sum_bytes_per_second = 1e30;
  cluster.compute = {rates, rates, rates};
  cluster.memory_bytes_per_second = 1e30;
  cluster.inside_host = {0, 100};
  cluster.between_hosts = {0, 10};
  cluster.host_link = cluster.disk = {0, 1000};
  return cluster;
}

}  // namespace zrt::testing
