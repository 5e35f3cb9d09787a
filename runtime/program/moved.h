// The bytes that transfers move between tiers, by what a program says; executors count the same.
#pragma once
#include <cstdint>

#include "runtime/program/program.h"

namespace zrt::runtime {

// The bytes that a rank has moved between tiers.
struct Moved {
  uint64_t to_device = 0, to_host = 0, read = 0, written = 0;  // over the link, from and to the NVMe tier
  Moved& operator+=(const Moved& other);
  Moved operator-(const Moved& other) const;
  bool operator==(const Moved&) const = default;
};
Moved moved(const ProgramSet& set, const Op& op);                     // by one execution
Moved forecast_moved(const ProgramSet& set, const Program& program);  // by one run

}  // namespace zrt::runtime
