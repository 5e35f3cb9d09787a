// The ordered sum of collectives: sources are added in the order given, in fp32, and rounded once.
#pragma once
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/isa.h"

namespace zrt::comm {

// True when a sum of `from` can be stored as `to`: fp32, bf16 or fp16 to itself or to fp32.
bool can_reduce(core::DType from, core::DType to);

// target[i] = round(sources[0][i] + sources[1][i] + …); with `accumulate` the fp32 sum is added to the target
// before it is rounded, and with `before` the sum goes on from before[i], the sum of earlier sources. `target` may be
// one of the sources when the types are equal. Requires can_reduce(from, to).
void reduce(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, core::Isa isa = core::best_isa(), const float* before = nullptr);

}  // namespace zrt::comm
