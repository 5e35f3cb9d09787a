// Kernels that turn fp32 numbers into numbers of fewer bits and back. They run at core::place(), as those of kernels.h.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/kernel.h"
#include "core/philox.h"

namespace zrt::models {

// to = from, of fp32, bf16 or fp16 each, rounded to nearest, ties to even. NaN stays NaN.
ZRT_KERNEL(cast, void(core::DType from_type, const void* from, core::DType to_type, void* to, int64_t n));

// y = x rounded to one of its two neighbours in bf16, to the farther one with the probability that makes the mean of y
// equal x: the low 16 bits of element `first` + i of the key's Philox stream are added below the kept bits, then the
// rest is cut off. What bf16 can hold, infinities and NaN stay as they are. The bits are the same on every device.
ZRT_KERNEL(round_stochastic, void(const float* x, core::bf16* y, const core::RngKey& key, uint64_t first, int64_t n));

// A sum of several fp32 products kept in a bf16 tensor `hi` and its missing low halves `lo`: no rounding until the
// last part. The first part starts from hi (accumulate) or from nothing.
enum class SumPart : uint8_t { first, middle, last };
ZRT_KERNEL(split_add, void(const float* x, core::bf16* hi, uint16_t* lo, SumPart part, bool accumulate, int64_t n));

}  // namespace zrt::models
