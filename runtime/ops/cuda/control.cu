// The decisions of a step take microseconds: one thread each, but for the counting of targets.
#include "core/cuda/launch.cuh"
#include "runtime/ops/control_ops.h"

namespace zrt::runtime::cuda {
namespace {

constexpr int threads = 256;

__global__ void begin_kernel(Control* control) {
  clear_sums(*control);
}

__global__ void count_kernel(Control* control, const int32_t* targets, int64_t rows) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += threads) count += targets[i] >= 0;
  atomicAdd(&total, count);
  __syncthreads();
  if (threadIdx.x != 0) return;
  control->loss_tokens += total;
  control->loss_sum += control->call_loss;
}

__global__ void share_kernel(const Control* control, ControlShare* share) {
  *share = share_of(*control);
}

__global__ void average_kernel(const ControlShare* shares, DecideRules rules, Control* control) {
  average_shares(shares, rules, *control);
}

__global__ void decide_kernel(const ControlShare* shares, DecideRules rules, Control* control) {
  decide_step(shares, rules, *control);
}

__global__ void decide_ahead_kernel(Control* control, DecideRules rules, Control* decided) {
  decide_for_updates(*control, rules, *decided);
}

}  // namespace

void begin_step(Control* control) {
  core::cuda::launch(begin_kernel, 1, 1, 0, control);
}

void count_loss(Control* control, const int32_t* targets, int64_t rows) {
  core::cuda::launch(count_kernel, 1, threads, 0, control, targets, rows);
}

void make_share(const Control* control, ControlShare* share) {
  core::cuda::launch(share_kernel, 1, 1, 0, control, share);
}

void average(const ControlShare* shares, const DecideRules& rules, Control* control) {
  core::cuda::launch(average_kernel, 1, 1, 0, shares, rules, control);
}

void decide(const ControlShare* shares, const DecideRules& rules, Control* control) {
  core::cuda::launch(decide_kernel, 1, 1, 0, shares, rules, control);
}

void decide_ahead(Control* control, const DecideRules& rules, Control* decided) {
  core::cuda::launch(decide_ahead_kernel, 1, 1, 0, control, rules, decided);
}

}  // namespace zrt::runtime::cuda
