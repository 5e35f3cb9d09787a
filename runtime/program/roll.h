// A long list of works as a short one: stretches that repeat themselves are written once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program/order.h"

namespace zrt::runtime {

// These works `repeat` times; each time the microbatches are `period` higher than the time before.
struct Turns {
  std::vector<Work> works;  // of the first time
  uint32_t repeat = 1;
  int32_t period = 0;
  bool operator==(const Turns&) const = default;
};

// Finds the stretches that repeat themselves at least four times with microbatches `period` higher. The first and the
// last time of each stand with the works around it, so that every turn of a repeated program has a turn like it before
// and behind it. Linear in the list; expand() gives the list back.
std::vector<Turns> roll(std::span<const Work> list, int32_t period);
std::vector<Work> expand(std::span<const Turns> turns);

// The same, but what is not repeated is cut into the turns that it is made of: wherever the works' microbatches come to
// another run of `period`. Messages stay with the work in front of them.
std::vector<Turns> cut(std::span<const Turns> turns, int32_t period);

}  // namespace zrt::runtime
