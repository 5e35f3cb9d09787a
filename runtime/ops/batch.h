// The batch of a microbatch, on its way into a rank's buffers.
#pragma once
#include <cstdint>

#include "models/model.h"

namespace zrt::runtime {

// Throws core::DataError for tokens or targets (may be null) outside the vocabulary: a GPU's blocks do not look.
void check_batch(const models::Model& model, const int32_t* tokens, const int32_t* targets, int64_t rows);

}  // namespace zrt::runtime
