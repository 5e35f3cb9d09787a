// Weights that are kept in few bits, made numbers that blocks compute with.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/form.h"
#include "core/kernel.h"

namespace zrt::runtime {

// `to` = n numbers, a multiple of core::weight_block, that lie in the form nf4 or linear8 at `from`, each rounded to
// `type`. Runs at core::place().
ZRT_KERNEL(expand_weights, void(core::Form form, const std::byte* from, core::DType type, std::byte* to, int64_t n));

}  // namespace zrt::runtime
