// Decides once how far ahead of their use weights come to the device, which Decisions::prefetch stands for.
#pragma once
#include <cstdint>
#include <memory>

#include "runtime/program/layout.h"

namespace zrt::runtime {

// A gather or fetch that might stand in front of a work that comes before its own.
struct Ahead {
  int64_t elements;   // that would be gathered ahead there, its own included
  bool alone;         // no other would be
  bool over_a_block;  // of an update between blocks: a block lies between there and its own work
  bool fetch;         // from another tier, not from other ranks
};

class PrefetchDistance {
 public:
  virtual ~PrefetchDistance() = default;
  virtual bool reaches(const Ahead& ahead) const = 0;
  // Says that a copy may still be on its way to its resident tier behind works other than the one next to it.
  // `elements` counts its own and those of all that was evicted since.
  virtual bool lingers(int64_t elements) const = 0;
};

std::unique_ptr<PrefetchDistance> make_prefetch_distance(const Layout& layout);

}  // namespace zrt::runtime
