// Every back end refuses bad arrays that add_squares() and adam_update() are given, naming these as `who`.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace zrt::optimizer {

// Throw core::Error: for a number of elements that is no multiple of unit_alignment, and for a type of `what` that has
// no fractions.
void require_chunks(const char* who, int64_t n);
void require_float(const char* who, const char* what, core::DType type);

}  // namespace zrt::optimizer
