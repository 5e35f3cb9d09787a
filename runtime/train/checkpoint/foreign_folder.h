// Checkpoints of other trainers that zrt does not read, known by their files.
#pragma once
#include <filesystem>

namespace zrt::runtime::checkpoint {

// Throws core::DataError where `folder` is a checkpoint of DeepSpeed or Megatron-LM; says whose it is and what makes a
// folder of Hugging Face of it.
void refuse_foreign(const std::filesystem::path& folder);

}  // namespace zrt::runtime::checkpoint
