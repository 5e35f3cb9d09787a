// Routing with the host's bits, but for those of exp and log: sums of a row go in the order of experts, and slots in
// that of choices and rows.
#include <cmath>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/cuda/vector_io.cuh"
#include "models/kernels/experts.h"

namespace zrt::models::cuda {
namespace {

constexpr int warps = 4;  // of a block, each with a row's group

// sum += the numbers of lanes 0 … count - 1, in this order.
__device__ void add_in_order(double& sum, double x, int count) {
  for (int lane = 0; lane < min(count, 32); ++lane) sum += __shfl_sync(all_lanes, x, lane);
}

// The softmax of x (n), in place, of which a lane reads and writes every 32nd element; returns the logarithm of the sum
// of exponentials.
__device__ float softmax(float* x, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = -INFINITY;
  for (int e = lane; e < n; e += 32) most = fmaxf(most, x[e]);
  most = warp_max(most);
  double sum = 0;
  for (int begin = 0; begin < n; begin += 32) {
    const int e = begin + lane;
    const double power = e < n ? exp(static_cast<double>(x[e] - most)) : 0;
    if (e < n) x[e] = static_cast<float>(power);
    add_in_order(sum, power, n - begin);
  }
  for (int e = lane; e < n; e += 32) x[e] = static_cast<float>(static_cast<double>(x[e]) / sum);
  return most + static_cast<float>(log(sum));
}

// Larger for larger logits, and of equal ones for lower experts; no two experts have the same, whatever their logits.
__device__ uint64_t rank_of(float logit, int expert) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 is 0
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | static_cast<uint32_t>(0x7fffffff - expert);
}

__global__ void __launch_bounds__(32 * warps)
    route_kernel(RoutingShape shape, float* logits, float* logs, int32_t* expert, float* gate) {
  const int64_t at = int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (at >= shape.rows * shape.groups) return;
  const int n = static_cast<int>(shape.experts / shape.groups), k = static_cast<int>(shape.chosen);
  const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(at % shape.groups) * n;
  float* const x = logits + at * n;
  uint64_t last = 0;
  for (int j = 0; j < k; ++j) {
    uint64_t best = 0;
    for (int e = lane; e < n; e += 32) {
      const uint64_t rank = rank_of(x[e], e);
      if ((j == 0 || rank < last) && rank > best) best = rank;
    }
    for (int step = 16; step > 0; step /= 2) {
      const uint64_t other = __shfl_xor_sync(all_lanes, best, step);
      if (other > best) best = other;
    }
    last = best;
    const int chosen = 0x7fffffff - static_cast<int>(static_cast<uint32_t>(best));
    if (lane == j % 32) expert[at * k + j] = first + chosen, gate[at * k + j] = x[chosen];
  }
  __syncwarp();  // the chosen logits are read
  if (shape.normalised) softmax(gate + at * k, k);
  const float log_of_sum = softmax(x, n);
  if (lane == 0) logs[at] = log_of_sum;
  if (shape.normalised) return;
  __syncwarp();
  for (int j = lane; j < k; j += 32) gate[at * k + j] = x[expert[at * k + j] - first];
}

// A block counts an expert's choices, 1024 rows at a time: `slot` of each is how many come before it.
constexpr int count_threads = 256, count_warps = count_threads / 32, parts = 32 / count_warps;

__global__ void __launch_bounds__(count_threads)
    count_kernel(RoutingShape shape, const int32_t* expert, int64_t all_slots, Slots slots) {
  __shared__ int32_t counts[2][32];  // by part and warp; of this round and the one before
  for (int64_t s = int64_t{blockIdx.x} * count_threads + threadIdx.x; s < all_slots; s += gridDim.x * count_threads) {
    slots.choice[s] = -1;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int own = static_cast<int>(blockIdx.x);
  const int64_t K = shape.groups * shape.chosen, own_group = own / (shape.experts / shape.groups);
  int32_t before = 0;
  int turn = 0;
  for (int64_t j = own_group * shape.chosen; j < (own_group + 1) * shape.chosen; ++j) {
    for (int64_t begin = 0; begin < shape.rows; begin += parts * count_threads) {
      unsigned same[parts];
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int64_t row = begin + part * count_threads + threadIdx.x;
        same[part] = __ballot_sync(all_lanes, row < shape.rows && expert[row * K + j] == own);
        if (lane == 0) counts[turn][part * count_warps + warp] = __popc(same[part]);
      }
      __syncthreads();
      const int32_t count = counts[turn][lane], up_to = warp_sum_up_to(count);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int32_t place = before + __shfl_sync(all_lanes, up_to - count, part * count_warps + warp);
        if ((same[part] >> lane & 1u) == 0) continue;
        const int64_t row = begin + part * count_threads + threadIdx.x;
        slots.slot[row * K + j] = place + __popc(same[part] & ((1u << lane) - 1));
      }
      before += __shfl_sync(all_lanes, up_to, 31);
      turn ^= 1;
    }
  }
  if (threadIdx.x == 0) slots.wanted[own] = before;
}

// One warp lays the experts' slots one behind the other.
__global__ void place_kernel(RoutingShape shape, Slots slots) {
  const int lane = static_cast<int>(threadIdx.x);
  int32_t before = 0;
  for (int64_t begin = 0; begin < shape.experts; begin += 32) {
    const int64_t e = begin + lane;
    const auto capacity = static_cast<int32_t>(shape.capacity);
    const int32_t wanted = e < shape.experts ? slots.wanted[e] : 0;
    const int32_t taken = capacity > 0 ? capacity : wanted;
    const auto own = e >= shape.experts ? 0 : shape.room > 0 ? taken : static_cast<int32_t>(up_to_grain(taken));
    const int32_t up_to = warp_sum_up_to(own);
    if (e < shape.experts) {
      slots.starts[e] = before + up_to - own;
      slots.counts[e] = capacity > 0 ? min(wanted, capacity) : wanted;
    }
    before += __shfl_sync(all_lanes, up_to, 31);
  }
  if (shape.room == 0) return;
  // In a message each rank's begin at its block. The last experts come first: what lies in front of them is still
  // there.
  const int64_t each = shape.experts / shape.ranks;
  for (int64_t begin = (shape.experts - 1) / 32 * 32; begin >= 0; begin -= 32) {
    __syncwarp();
    const int64_t e = begin + lane, block = e / each;
    const bool is = e < shape.experts;
    const int32_t within = is ? slots.starts[e] - slots.starts[block * each] : 0;
    __syncwarp();
    if (is) slots.starts[e] = static_cast<int32_t>(block * shape.room) + within;
  }
}

__global__ void __launch_bounds__(256)
    give_kernel(int64_t choices, int64_t capacity, const int32_t* expert, Slots slots) {
  const int64_t c = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (c >= choices) return;
  if (expert[c] < 0) {
    slots.slot[c] = -1;
    return;
  }
  const int32_t before = slots.slot[c], slot = slots.starts[expert[c]] + before;
  const bool dropped = capacity > 0 && before >= capacity;
  slots.slot[c] = dropped ? -1 : slot;
  if (!dropped) slots.choice[slot] = static_cast<int32_t>(c);
}

template <class T>
__global__ void __launch_bounds__(32 * warps) backward_kernel(RoutingShape shape, RouterGradient of, T* d_logits) {
  const int64_t at = int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (at >= shape.rows * shape.groups) return;
  const int n = static_cast<int>(shape.experts / shape.groups), k = static_cast<int>(shape.chosen);
  const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(at % shape.groups) * n;
  const auto groups = static_cast<double>(shape.groups);
  const double per_choice = of.balance / groups * static_cast<double>(n) / static_cast<double>(k * shape.rows);
  const float* const p = of.probability + at * n;
  double chosen = 0, mean = 0;  // means of the gradients of gates and of the balance
  for (int64_t c = at * k; c < at * k + k; ++c) {
    if (of.slot[c] >= 0) chosen += static_cast<double>(of.gate[c]) * static_cast<double>(of.d_gate[c]);
  }
  for (int begin = 0; begin < n && of.balance != 0; begin += 32) {
    const int e = begin + lane;
    add_in_order(mean, e < n ? static_cast<double>(p[e]) * of.wanted[first + e] : 0, n - begin);
  }
  for (int e = lane; e < n; e += 32) {
    const auto probability = static_cast<double>(p[e]);
    double sum = shape.normalised ? 0 : -probability * chosen;
    for (int64_t c = at * k; c < at * k + k; ++c) {
      if (of.expert[c] != first + e) continue;
      const double d_gate = of.slot[c] >= 0 ? static_cast<double>(of.d_gate[c]) : 0;
      sum += static_cast<double>(of.gate[c]) * (shape.normalised ? d_gate - chosen : d_gate);
    }
    if (of.balance != 0) sum += per_choice * probability * (of.wanted[first + e] - mean);
    if (of.z != 0) sum += 2 * of.z / groups * static_cast<double>(of.logs[at]) * probability;
    d_logits[at * n + e] = narrow<T>(static_cast<float>(sum));
  }
}

constexpr int tally_threads = 1024;

__global__ void __launch_bounds__(tally_threads)
    tally_kernel(RoutingShape shape, const float* probability, const float* logs, const int32_t* wanted,
                 const int32_t* counts, RouterTally* tally, ExpertLoad* loads) {
  __shared__ double sums[2][32], others[2][32];
  const auto rows = static_cast<double>(shape.rows);
  double balance = 0, z = 0, dropped = 0, most = 0;
  for (int64_t i = threadIdx.x; i < shape.rows * shape.experts; i += tally_threads) {
    balance += static_cast<double>(probability[i]) * wanted[i % shape.experts];
  }
  for (int64_t i = threadIdx.x; i < shape.rows * shape.groups; i += tally_threads) {
    z += static_cast<double>(logs[i]) * static_cast<double>(logs[i]);
  }
  for (int64_t e = threadIdx.x; e < shape.experts; e += tally_threads) {
    dropped += wanted[e] - counts[e];  // whole numbers
    most = max(most, static_cast<double>(wanted[e]));
    // No other thread has this expert, and no other kernel runs beside this one that adds to it.
    if (loads == nullptr) continue;
    loads[e].picked += static_cast<uint64_t>(wanted[e]);
    loads[e].dropped += static_cast<uint64_t>(wanted[e] - counts[e]);
  }
  balance = block_sum(balance, sums[0]), z = block_sum(z, sums[1]), dropped = block_sum(dropped, others[0]);
  most = static_cast<double>(block_max(static_cast<float>(most), reinterpret_cast<float*>(others[1])));
  if (threadIdx.x != 0) return;
  const auto groups = static_cast<double>(shape.groups), E = static_cast<double>(shape.experts);
  RouterTally own;
  own.layers = 1, own.choices = static_cast<uint64_t>(shape.rows * shape.groups * shape.chosen);
  own.balance = balance * (E / (groups * groups * static_cast<double>(shape.chosen)) / (rows * rows));
  own.z = z / (rows * groups);
  own.dropped = static_cast<uint64_t>(dropped);
  own.peak = most * E / static_cast<double>(own.choices);
  tally->add(own);
}

unsigned row_blocks(const RoutingShape& shape) {
  return blocks_for(shape.rows * shape.groups, warps);
}

}  // namespace

void route(const RoutingShape& shape, float* logits, float* logs, int32_t* expert, float* gate) {
  core::cuda::launch(route_kernel, row_blocks(shape), 32 * warps, 0, shape, logits, logs, expert, gate);
}

void give_slots(const RoutingShape& shape, const int32_t* expert, const Slots& slots) {
  const int64_t choices = shape.rows * shape.choices();
  core::cuda::launch(count_kernel, static_cast<unsigned>(shape.experts), count_threads, 0, shape, expert, shape.slots(),
                     slots);
  core::cuda::launch(place_kernel, 1, 32, 0, shape, slots);
  core::cuda::launch(give_kernel, blocks_for(choices, 256), 256, 0, choices, shape.capacity, expert, slots);
}

void route_backward(DType type, const RoutingShape& shape, const RouterGradient& of, void* d_logits) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(backward_kernel<T>, row_blocks(shape), 32 * warps, 0, shape, of, static_cast<T*>(d_logits));
  });
}

void tally_routing(const RoutingShape& shape, const float* probability, const float* logs, const int32_t* wanted,
                   const int32_t* counts, RouterTally* tally, ExpertLoad* loads) {
  core::cuda::launch(tally_kernel, 1, tally_threads, 0, shape, probability, logs, wanted, counts, tally, loads);
}

}  // namespace zrt::models::cuda
