// The two layouts that files of Hugging Face have for experts: a tensor for each matrix of an expert, or one tensor for
// those of all experts of a layer, as transformers 5 holds them in memory. What came in in one goes out in it.
#pragma once
#include <filesystem>

#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/tensor_set.h"

namespace zrt::runtime::checkpoint {

// Says whether the model's files, whose tensors have their own names still, are of the second layout. Throws DataError
// where they have both, or an expert that the model does not have.
bool find_fused_experts(const std::filesystem::path& folder, const Json& model, const TensorSet& tensors);

// The layout that a checkpoint's exports have. It lies in Manifest::made_by, and is the first where that says nothing.
bool has_fused_experts(const Manifest& manifest);
void keep_fused_experts(Manifest& manifest, bool fused);

}  // namespace zrt::runtime::checkpoint
