#include "models/kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/kernel_convert.h"
#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t routed_rows = 16;  // per piece of work
constexpr int64_t lanes = 16;        // of a dot product, each with a sum of its own

// The softmax of a row's group, in place; returns the logarithm of the sum of exponentials.
float softmax(float* x, int64_t n) {
  const float most = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) {
    const double power = std::exp(static_cast<double>(x[e] - most));
    x[e] = static_cast<float>(power), sum += power;
  }
  for (int64_t e = 0; e < n; ++e) x[e] = static_cast<float>(static_cast<double>(x[e]) / sum);
  return most + static_cast<float>(std::log(sum));
}

// The experts with the largest logits, of equal ones the lower, likeliest first.
void choose(const float* x, int64_t n, int64_t chosen, int32_t first, int32_t* expert) {
  for (int64_t j = 0; j < chosen; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < n; ++e) {
      const bool taken = std::find(expert, expert + j, first + static_cast<int32_t>(e)) != expert + j;
      if (!taken && (best < 0 || x[e] > x[best])) best = e;
    }
    expert[j] = first + static_cast<int32_t>(best);
  }
}

template <class T>
float dot(const T* x, const T* y, int64_t n) {
  float sums[lanes] = {};
  for (int64_t i = 0; i + lanes <= n; i += lanes) {
    for (int64_t l = 0; l < lanes; ++l) sums[l] += core::widen(x[i + l]) * core::widen(y[i + l]);
  }
  for (int64_t i = n / lanes * lanes; i < n; ++i) sums[i % lanes] += core::widen(x[i]) * core::widen(y[i]);
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

// Calls body(slot, choice) for all slots.
template <class Body>
void for_slots(const RoutingShape& shape, const int32_t* choice, const Body& body) {
  core::parallel_for(shape.slots(), slot_grain, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) body(s, int64_t{choice[s]});
  });
}

}  // namespace

void route(const RoutingShape& shape, float* logits, float* logs, int32_t* expert, float* gate) {
  const int64_t n = shape.experts / shape.groups, k = shape.chosen;
  core::parallel_for(shape.rows, routed_rows, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * shape.groups; at < end * shape.groups; ++at) {
      float* const x = logits + at * n;
      const auto first = static_cast<int32_t>(at % shape.groups * n);
      choose(x, n, k, first, expert + at * k);
      for (int64_t j = 0; j < k; ++j) gate[at * k + j] = x[expert[at * k + j] - first];
      if (shape.normalised) softmax(gate + at * k, k);
      logs[at] = softmax(x, n);
      for (int64_t j = 0; j < k && !shape.normalised; ++j) gate[at * k + j] = x[expert[at * k + j] - first];
    }
  });
}

void give_slots(const RoutingShape& shape, const int32_t* expert, const Slots& slots) {
  const int64_t K = shape.choices();
  std::fill_n(slots.choice, shape.slots(), -1);
  std::fill_n(slots.wanted, shape.experts, 0);
  for (int64_t c = 0; c < shape.rows * K; ++c) {
    if (expert[c] >= 0) ++slots.wanted[expert[c]];
  }
  int64_t next = 0;
  for (int64_t e = 0; e < shape.experts; ++e) {
    if (shape.room > 0 && e % (shape.experts / shape.ranks) == 0) next = e / (shape.experts / shape.ranks) * shape.room;
    const int64_t own = shape.capacity > 0 ? shape.capacity : slots.wanted[e];
    slots.starts[e] = static_cast<int32_t>(next), slots.counts[e] = 0;
    next += shape.room > 0 ? own : up_to_grain(own);
  }
  for (int64_t j = 0; j < K; ++j) {
    for (int64_t c = j; c < shape.rows * K; c += K) {
      if (expert[c] < 0) {
        slots.slot[c] = -1;
        continue;
      }
      int32_t& count = slots.counts[expert[c]];
      const bool dropped = shape.capacity > 0 && count == shape.capacity;
      slots.slot[c] = dropped ? -1 : slots.starts[expert[c]] + count;
      if (!dropped) slots.choice[slots.slot[c]] = static_cast<int32_t>(c), ++count;
    }
  }
}

void experts_to_slots(const RoutingShape& shape, const int32_t* choice, const int32_t* expert, int32_t* picked) {
  const auto each = static_cast<int32_t>(shape.experts / shape.ranks);
  for_slots(shape, choice, [&](int64_t slot, int64_t of) { picked[slot] = of < 0 ? -1 : expert[of] % each; });
}

void rows_to_slots(DType type, const RoutingShape& shape, const int32_t* choice, const void* x, int64_t C, void* y) {
  const auto bytes = static_cast<size_t>(C) * core::dtype_size(type);
  for_slots(shape, choice, [&](int64_t slot, int64_t of) {
    std::byte* const to = static_cast<std::byte*>(y) + static_cast<size_t>(slot) * bytes;
    if (of < 0) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, static_cast<const std::byte*>(x) + static_cast<size_t>(of / shape.choices()) * bytes, bytes);
    }
  });
}

void slots_to_rows(DType type, const RoutingShape& shape, const int32_t* slot, const void* x, int64_t C,
                   const void* add, void* y) {
  const int64_t K = shape.choices();
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(shape.rows, routed_rows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t at = 0; at < C; at += column_tile) {
          const int64_t n = std::min(column_tile, C - at);
          float sums[column_tile] = {};
          for (int64_t j = 0; j < K; ++j) {
            if (slot[r * K + j] < 0) continue;
            const T* const from = static_cast<const T*>(x) + slot[r * K + j] * C + at;
            for (int64_t i = 0; i < n; ++i) sums[i] += core::widen(from[i]);
          }
          const T* const base = add == nullptr ? nullptr : static_cast<const T*>(add) + r * C + at;
          T* const to = static_cast<T*>(y) + r * C + at;
          for (int64_t i = 0; i < n; ++i) core::narrow(base ? core::widen(base[i]) + sums[i] : sums[i], to[i]);
        }
      }
    });
  });
}

void apply_gates(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate, int64_t F, void* x) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    for_slots(shape, choice, [&](int64_t slot, int64_t of) {
      T* const row = static_cast<T*>(x) + slot * F;
      for (int64_t i = 0; i < F; ++i) core::narrow(of < 0 ? 0.0f : gate[of] * core::widen(row[i]), row[i]);
    });
  });
}

void apply_gates_backward(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate, int64_t F,
                          void* x, void* d, float* d_gate) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    for_slots(shape, choice, [&](int64_t slot, int64_t of) {
      T *const value = static_cast<T*>(x) + slot * F, *const gradient = static_cast<T*>(d) + slot * F;
      if (of >= 0) d_gate[of] = dot(value, gradient, F);
      const float factor = of < 0 ? 0 : gate[of];
      for (int64_t i = 0; i < F; ++i) {
        core::narrow(of < 0 ? 0.0f : factor * core::widen(value[i]), value[i]);
        core::narrow(of < 0 ? 0.0f : factor * core::widen(gradient[i]), gradient[i]);
      }
    });
  });
}

void route_backward(DType type, const RoutingShape& shape, const RouterGradient& of, void* d_logits) {
  const int64_t n = shape.experts / shape.groups, k = shape.chosen;
  // The gradient of the balance with regard to a probability is that of its expert.
  const auto groups = static_cast<double>(shape.groups);
  const double per_choice = of.balance / groups * static_cast<double>(n) / static_cast<double>(k * shape.rows);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(shape.rows, routed_rows, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * shape.groups; at < end * shape.groups; ++at) {
        const float* const p = of.probability + at * n;
        const auto first = static_cast<int32_t>(at % shape.groups * n);
        double chosen = 0, mean = 0;  // means of the gradients of gates and of the balance
        for (int64_t j = 0; j < k; ++j) {
          const int64_t c = at * k + j;
          if (of.slot[c] >= 0) chosen += static_cast<double>(of.gate[c]) * static_cast<double>(of.d_gate[c]);
        }
        for (int64_t e = 0; e < n && of.balance != 0; ++e) mean += static_cast<double>(p[e]) * of.wanted[first + e];
        T* const d = static_cast<T*>(d_logits) + at * n;
        for (int64_t e = 0; e < n; ++e) {
          const auto probability = static_cast<double>(p[e]);
          double sum = shape.normalised ? 0 : -probability * chosen;
          for (int64_t c = at * k; c < at * k + k; ++c) {
            if (of.expert[c] != first + e) continue;
            const double d_gate = of.slot[c] >= 0 ? static_cast<double>(of.d_gate[c]) : 0;
            sum += static_cast<double>(of.gate[c]) * (shape.normalised ? d_gate - chosen : d_gate);
          }
          if (of.balance != 0) sum += per_choice * probability * (of.wanted[first + e] - mean);
          if (of.z != 0) sum += 2 * of.z / groups * static_cast<double>(of.logs[at]) * probability;
          core::narrow(static_cast<float>(sum), d[e]);
        }
      }
    });
  });
}

void tally_routing(const RoutingShape& shape, const float* probability, const float* logs, const int32_t* wanted,
                   const int32_t* counts, RouterTally* tally, ExpertLoad* loads) {
  const auto rows = static_cast<double>(shape.rows), E = static_cast<double>(shape.experts);
  RouterTally own{.layers = 1, .choices = static_cast<uint64_t>(shape.rows * shape.choices())};
  for (int64_t r = 0; r < shape.rows; ++r) {
    double sum = 0;
    for (int64_t e = 0; e < shape.experts; ++e) {
      sum += static_cast<double>(probability[r * shape.experts + e]) * wanted[e];
    }
    own.balance += sum;
  }
  // A group has E / groups experts, and this is a mean over groups.
  own.balance *= E / static_cast<double>(shape.groups * shape.groups * shape.chosen) / (rows * rows);
  for (int64_t e = 0; e < shape.experts; ++e) {
    const auto dropped = static_cast<uint64_t>(wanted[e] - counts[e]);
    own.dropped += dropped;
    own.peak = std::max(own.peak, wanted[e] * E / static_cast<double>(own.choices));
    if (loads) loads[e].picked += static_cast<uint64_t>(wanted[e]), loads[e].dropped += dropped;
  }
  for (int64_t at = 0; at < shape.rows * shape.groups; ++at) {
    own.z += static_cast<double>(logs[at]) * static_cast<double>(logs[at]);
  }
  own.z /= rows * static_cast<double>(shape.groups);
  tally->add(own);
}

}  // namespace zrt::models::cpu
