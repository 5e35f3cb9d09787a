// The checks that verify() consists of, in order. Each takes for granted what the ones before it have shown. All throw
// Fault, with the place, and name, where there are two, both ops concerned.
#pragma once
#include "runtime/verify/families.h"
#include "runtime/verify/part_order.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime::verification {

// Lanes, ops, units, buffers and slots exist; collectives run on the lane of their group and nothing else does.
void check_references(const ProgramSet& set, const Program& program, const Layout& layout);

// Collectives go among the ranks that they must: those that have shards of a unit, or parts of its gradient …
void check_groups(const ProgramSet& set, const Program& program, const Layout& layout);

// Every buffer is as large as each op that uses it needs.
void check_sizes(const ProgramSet& set, const Program& program, const Layout& layout,
                 const std::vector<PartOrder>& orders);

// Kept buffers share bytes with none, and no buffer ends behind its tier's arena or budget.
void check_placement(const ProgramSet& set, const TierBytes& budgets);

// On every interleaving each read sees the last write of its slot, whole, and the bytes are not in use elsewhere.
void check_memory(const ProgramSet& set, const Program& program);

// Each op reads what it means: of the same microbatch, unit, version and level of reduction.
void check_meaning(const ProgramSet& set, const Program& program, const Layout& layout,
                   const std::vector<PartOrder>& orders, const Families& families);

// A step is whole: everything happens as often as it must, in order. So is the program of updates that it left.
void check_step(const Program& program, const Layout& layout, const std::vector<PartOrder>& orders);

// An op of a block ends where ranks exchange something, and names what it takes there and what the block keeps.
void check_blocks(const Program& program, const Layout& layout, const std::vector<PartOrder>& orders);

}  // namespace zrt::runtime::verification
