// The batch of a microbatch, on its way into a rank's buffers.
#pragma once
#include <cstdint>

#include "models/model.h"
#include "runtime/data/sample_rows.h"

namespace zrt::runtime {

// Throws core::DataError for tokens or targets (may be null) outside the vocabulary: a GPU's blocks do not look.
void check_batch(const models::Model& model, const data::SampleRows& batch, int64_t rows);
// Throws core::DataError where a position of samples of T tokens is neither 0 nor one above the position before it.
void check_positions(const int32_t* positions, int64_t rows, int64_t T);

}  // namespace zrt::runtime
