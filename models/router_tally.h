// Tells what the routers of layers with experts did in a step: sums over layers, microbatches and ranks, and what came
// to each expert.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::models {

struct RouterTally {
  uint64_t layers = 0;                // routed microbatches of layers
  double balance = 0, z = 0;          // the router's losses, without their weights (kernels/experts.h)
  uint64_t choices = 0, dropped = 0;  // picks of an expert by a row, and those that found it full
  // The most that one expert was picked in a layer and microbatch, by what an even share of the picks is.
  double peak = 0;

  ZRT_HD void add(const RouterTally& other) {
    layers += other.layers, balance += other.balance, z += other.z;
    choices += other.choices, dropped += other.dropped;
    peak = peak > other.peak ? peak : other.peak;
  }
};

// Sums over the microbatches of a step.
struct ExpertLoad {
  uint64_t picked = 0, dropped = 0;  // the first include the others, which found the expert full
  bool operator==(const ExpertLoad&) const = default;
};

}  // namespace zrt::models
