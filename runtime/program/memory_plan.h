// Memory assignment: an offset for every buffer, reused only where the dependencies prove it dead on every
// interleaving; and the plan that follows from it, to the byte.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program/program.h"

namespace zrt::runtime {

struct TierPlan {
  uint64_t peak_bytes = 0;             // one past the highest planned byte of the tier's arena, over all phases
  uint64_t live_peak_bytes = 0;        // largest sum of live buffers: what a packing without any gap would need
  std::string peak_phase, peak_op;     // where that sum occurs
  core::CategoryBytes categories{};    // live bytes by category there
  core::CategoryBytes model_states{};  // bytes of reserved and carried buffers by category
  double packing_overhead() const {
    return live_peak_bytes == 0 ? 0 : static_cast<double>(peak_bytes) / static_cast<double>(live_peak_bytes) - 1;
  }
};

struct MemoryPlan {
  std::array<TierPlan, core::tier_count> tiers;
  std::vector<core::LedgerEntry> ledger;  // every buffer
  const TierPlan& device() const { return tiers[static_cast<size_t>(core::Tier::device)]; }
  const TierPlan& host() const { return tiers[static_cast<size_t>(core::Tier::host)]; }
};

// Test hook: treats the named buffer as dead after its first use. What it breaks must be caught downstream.
struct Sabotage {
  std::string shorten_life_of;
};

// Sets Buffer::offset of all buffers and ProgramSet::arena_bytes.
void assign_memory(ProgramSet& set, const Sabotage& sabotage = {});

MemoryPlan make_memory_plan(const ProgramSet& set);

// For every op execution of a program run one op at a time (the turns of make_timeline): live bytes by tier and
// category while it runs. The executor counts the same from what it does and must find the same.
struct LivePoint {
  OpId op;
  uint32_t iteration;
  std::array<core::CategoryBytes, core::tier_count> tiers;
};
uint64_t total(const core::CategoryBytes& categories);
std::vector<LivePoint> live_bytes(const ProgramSet& set, const Program& program);

}  // namespace zrt::runtime
