// Routing of rows to experts, their way there and back, and the products of each expert with its rows. All run at
// core::place(), as those of kernels.h do, and results depend neither on the number of threads nor on timing.
//
// A *choice* is a row's pick of an expert: number row · choices + j, where j counts from the likeliest expert on, group
// by group. A *slot* is a place for a row in a matrix that has each expert's rows one behind the other; slots that have
// no choice hold zeros. Tables of choices and slots are int32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/kernels/kernels.h"
#include "models/router_tally.h"

namespace zrt::models {

// An expert's slots begin at a multiple of this, and products take so many rows at least.
inline constexpr int64_t slot_grain = 16;
constexpr int64_t up_to_grain(int64_t slots) {
  return (slots + slot_grain - 1) / slot_grain * slot_grain;
}

struct RoutingShape {
  int64_t rows = 0, experts = 0;
  int64_t groups = 1;       // equal runs of experts, each of which picks for every row
  int64_t chosen = 1;       // experts that a group picks
  int64_t capacity = 0;     // choices that an expert takes; 0: all, one expert's slots behind the other's
  bool normalised = false;  // gates are the softmax of the chosen logits of a group alone, else of all
  // Slots with room are a message to `ranks` ranks that have as many experts each: a rank gets a block of so many
  // slots, in which those of its experts follow one another, without a grain.
  int64_t ranks = 1, room = 0;

  int64_t choices() const { return groups * chosen; }
  int64_t slots() const {
    if (room > 0) return ranks * room;
    if (capacity > 0) return experts * up_to_grain(capacity);
    const int64_t all = rows * choices(), used = all < experts ? all : experts;
    return up_to_grain(all + used * (slot_grain - 1));
  }
};

// Routes in place: logits (rows, experts) become their softmax over each group; logs (rows, groups) gets the logarithm
// of the sum of each group's exponentials, expert (choices) the experts with the largest logits, of equal ones the
// lower, and gate (choices) what their outputs are multiplied by.
ZRT_KERNEL(route, void(const RoutingShape& shape, float* logits, float* logs, int32_t* expert, float* gate));

// Gives slots to choices: to a row's first ones before its second ones, and then to earlier rows first. A choice beyond
// its expert's capacity is dropped: its slot is -1. slot (choices), choice (slots, -1: empty), and by expert: starts,
// the first slot; counts, the choices that have slots; wanted, all of its choices. Without a group to pick from (one
// choice of a row that has come in a message), expert may be -1: such a choice has no slot either.
struct Slots {
  int32_t *slot = nullptr, *choice = nullptr;
  int32_t *starts = nullptr, *counts = nullptr, *wanted = nullptr;
};
ZRT_KERNEL(give_slots, void(const RoutingShape& shape, const int32_t* expert, const Slots& slots));

// y (slots, C): the rows of x (rows, C) that choices with slots are of.
ZRT_KERNEL(rows_to_slots,
           void(DType type, const RoutingShape& shape, const int32_t* choice, const void* x, int64_t C, void* y));
// y (rows, C) = [add +] the sum of what a row's choices have in x (slots, C), in their order, rounded once. add may be
// null or y.
ZRT_KERNEL(slots_to_rows, void(DType type, const RoutingShape& shape, const int32_t* slot, const void* x, int64_t C,
                               const void* add, void* y));

// picked (slots) of a message: the expert of each slot's choice, counted among those of the rank that it goes to; -1:
// empty.
ZRT_KERNEL(experts_to_slots,
           void(const RoutingShape& shape, const int32_t* choice, const int32_t* expert, int32_t* picked));

// x (slots, F) times the gate of each slot's choice.
ZRT_KERNEL(apply_gates,
           void(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate, int64_t F, void* x));
// Goes back through y = gate · x, d being the gradient of y: d_gate (choices; of those without a slot nothing is
// written) = d · x, then d becomes the gradient of x, and x becomes y.
ZRT_KERNEL(apply_gates_backward, void(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate,
                                      int64_t F, void* x, void* d, float* d_gate));

// d_logits (rows, experts) of `type`: the gradient of what route() read. The losses of the router are, with n experts
// in a group and means over rows:
//   balance: the mean over groups of n / chosen · Σ of (share of rows that choose an expert · mean of its probability)
//   z: the mean of the squares of `logs` over rows and groups (Zoph et al., "ST-MoE", 2022)
// `balance` and `z` are what their gradients are multiplied by, divided by the number of rows.
struct RouterGradient {
  const float *probability = nullptr, *logs = nullptr, *gate = nullptr, *d_gate = nullptr;  // as route() has left them
  const int32_t *expert = nullptr, *slot = nullptr, *wanted = nullptr;
  double balance = 0, z = 0;
};
ZRT_KERNEL(route_backward, void(DType type, const RoutingShape& shape, const RouterGradient& gradient, void* d_logits));
// Adds to `tally`, in the device's memory, what one layer did with a microbatch, and to `loads`, where that is not
// null, what came to each expert.
ZRT_KERNEL(tally_routing, void(const RoutingShape& shape, const float* probability, const float* logs,
                               const int32_t* wanted, const int32_t* counts, RouterTally* tally, ExpertLoad* loads));

// A matrix (out, in) of each expert: of expert e `all[first + e · stride]`.
struct ExpertWeights {
  std::span<const void* const> all;
  size_t first = 0, stride = 1;
  const void* of(int64_t expert) const { return all[first + static_cast<size_t>(expert) * stride]; }
};
struct ExpertGradients {
  std::span<void* const> all;           // null: nobody wants it
  std::span<const uint8_t> accumulate;  // 1 adds, 0 overwrites
  DType type = DType::f32;
  size_t first = 0, stride = 1;
  GradTarget of(int64_t expert) const {
    const size_t at = first + static_cast<size_t>(expert) * stride;
    return {all[at], type, accumulate[at] != 0};
  }
};
struct ExpertProduct {
  int64_t experts = 0, slots = 0, in = 0, out = 0;
  DType type = DType::f32, grad_type = DType::f32;
  const int32_t *starts = nullptr, *counts = nullptr;
};
// y (slots, out) = x (slots, in) · Wᵀ; of slots behind an expert's last choice, up to the grain, zeros; others stay.
ZRT_KERNEL(experts_forward, void(const ExpertProduct& product, const void* x, const ExpertWeights& weights, void* y,
                                 std::byte* workspace));
// dx = [dx +] dy · W.
ZRT_KERNEL(experts_input_gradient, void(const ExpertProduct& product, const void* dy, const ExpertWeights& weights,
                                        bool add, void* dx, std::byte* workspace));
// dW = [dW +] dyᵀ · x, of an expert without a choice zeros.
ZRT_KERNEL(experts_weight_gradients, void(const ExpertProduct& product, const void* x, const void* dy,
                                          const ExpertGradients& gradients, std::byte* workspace));
// The workspace of any of the three; starts and counts are not read.
ZRT_KERNEL(experts_workspace, uint64_t(const ExpertProduct& product));

}  // namespace zrt::models
