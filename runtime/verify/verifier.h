// Proves programs safe before they run: on every interleaving the lanes and waits allow,
//  - an op that reads a buffer sees the whole of the write it means: written before, not overwritten since by another
//    buffer that shares its bytes, and of the same microbatch;
//  - two ops that touch the same bytes, one of them writing, are ordered;
//  - weights that a block reads are whole and as the last update left them, in whichever program that ran;
//  - what is sharded is brought together as often as the layout says: not where all of it is there already, and again
//    for each use where it does not stay;
//  - every gradient is reduced once per window, on each of two levels where there are two, and what norms and updates
//    read is the sum of all windows;
//  - the red zone behind a buffer is never part of another live buffer, and kept buffers share bytes with none;
//  - every buffer is as large as its ops need, and none ends above its tier's budget;
//  - a step does everything a step consists of, once and in order;
//  - all ranks of a group make the same collectives in the same order, and no rank can wait for ever, not even one that
//    does an op at a time, as a GPU with a single queue does.
// It judges what programs mean, not how the passes order them. Time and memory are linear in executions and accesses:
// about 0.3 µs per access and execution, without limit on turns.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

using TierBytes = std::array<uint64_t, core::tier_count>;
inline constexpr TierBytes no_budgets{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};

// The programs of one rank. Throws core::ProgramError naming the phase, the ops concerned (two where there are two) and
// buffers; behind that sentence a line names the operand, the groups of ranks that combine it and the ops beside it.
void verify(const ProgramSet& set, const Layout& layout, const TierBytes& budgets = no_budgets);

// The programs of several ranks together, which may differ: the collectives of every group match in order and size, and
// the orders of all ranks' ops, where a collective is one op of all its ranks, lead into no circle. Throws
// core::ProgramError naming ranks, lane and both ops. `numbers`: the rank in the run of each set, which may stand for
// all ranks of a stage of a pipeline: what these do among themselves meets in any case. Every rank has a set where
// there are no numbers.
void verify_collectives(const std::vector<const ProgramSet*>& ranks, const std::vector<int>& numbers = {});

}  // namespace zrt::runtime
