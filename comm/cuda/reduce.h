// The ordered sum on a GPU, bit for bit that of comm/reduce.h. Implemented in cuda/ where the CUDA Toolkit is found,
// else in no_cuda/, which refuses.
#pragma once
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace zrt::comm::cuda {

// Sources of one sum: their addresses travel in the launch's parameters.
inline constexpr size_t most_sources = 256;

// Sums as comm::reduce does, queued on the stream of the calling thread's place. Memory of a GPU that the stream's GPU
// cannot read is copied to it first, with 4 MiB for each such source beyond what was planned. Throws CommError beyond
// most_sources, core::Error when the launch is refused.
void reduce(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, const float* before = nullptr);

}  // namespace zrt::comm::cuda
