// Memory assignment: an offset for every buffer, reused only where the dependencies prove it dead on every
// interleaving; and the plan that follows from it, to the byte.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace zrt::runtime {

struct MemoryPlan {
  uint64_t peak_bytes = 0;                // one past the highest planned byte of the device arena, over all phases
  uint64_t live_peak_bytes = 0;           // largest sum of live buffers: what a packing without any gap would need
  std::string peak_phase, peak_op;        // where that sum occurs
  core::CategoryBytes categories{};       // live bytes by category there
  core::CategoryBytes model_states{};     // bytes of reserved and carried buffers by category
  std::vector<core::LedgerEntry> ledger;  // every buffer
  double packing_overhead() const {
    return live_peak_bytes == 0 ? 0 : static_cast<double>(peak_bytes) / static_cast<double>(live_peak_bytes) - 1;
  }
};

// Test hook: treats the named buffer as dead after its first use. What it breaks must be caught downstream.
struct Sabotage {
  std::string shorten_life_of;
};

// Sets Buffer::offset of all buffers and ProgramSet::device_bytes.
void assign_memory(ProgramSet& set, const Sabotage& sabotage = {});

MemoryPlan make_memory_plan(const ProgramSet& set);

// For every op execution of a program run one op at a time (all turns of checked_turns): live bytes by category while
// it runs. The executor counts the same from what it does and must find the same.
struct LivePoint {
  OpId op;
  uint32_t iteration;
  core::CategoryBytes categories;
  uint64_t total() const;
};
std::vector<LivePoint> live_bytes(const ProgramSet& set, const Program& program);

}  // namespace zrt::runtime
