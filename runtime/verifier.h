// Proves a program safe before it runs: on every interleaving the lanes and waits allow,
//  - an op that reads a buffer sees the whole of the write it means: written before, not overwritten since by another
//    buffer that shares its bytes, and for activations of the same microbatch;
//  - two ops that touch the same bytes, one of them writing, are ordered;
//  - the red zone behind a buffer is never part of another live buffer, and kept buffers share bytes with none;
//  - a step does everything a step consists of, once and in order (verify_step);
//  - all ranks of a group make the same collectives in the same order, and no wait points forward, so no rank can wait
//    for ever.
#pragma once
#include <vector>

#include "runtime/layout.h"
#include "runtime/program.h"

namespace zrt::runtime {

// Throws core::ProgramError naming phase, ops and buffers.
void verify(const ProgramSet& set, const Layout& layout);

// Whether a step is whole: every (block, microbatch) runs forward and backward once; every unit's gradient is defined,
// summed and reduced once per window; then norms, the decision, updates and whole gradients or weights follow in order.
// Throws core::ProgramError naming ops, units and blocks.
void verify_step(const Program& program, const Layout& layout);

// The collectives of several ranks' sets, in lane order, must match. Throws core::ProgramError.
void verify_collectives(const std::vector<const ProgramSet*>& ranks);

}  // namespace zrt::runtime
