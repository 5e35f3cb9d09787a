// Checkpoints to and from plain Hugging Face directories: config.json and model.safetensors, or several files with an
// index.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/train/checkpoint/carried.h"
#include "runtime/train/checkpoint/hugging_face.h"

namespace zrt::runtime::checkpoint {

struct ExportOptions {
  core::DType type = core::DType::f32;   // of the weights: fp32, bf16 or fp16
  uint64_t shard_bytes = 5'000'000'000;  // of one file, unless one tensor is larger
  CarriedFiles carried = {};             // that the folder gets, too; of config.json its special ids
};

// Writes the consolidated weights, with what adapters add to them, to a new folder; it appears under its name when all
// of it is on disk. Returns the files' names. Throws DataError, also for the first weight that is NaN or infinite, or
// would be in the type.
std::vector<std::string> export_hugging_face(const Reader& reader, const std::filesystem::path& out,
                                             const ExportOptions& options);

// Writes the weights as checkpoint step_0 of a store, as plan_copy says. `model` is the resolved section.
// Returns the checkpoint's folder. Throws DataError, before it writes anything where the disk has too little room, and
// for the first weight that is NaN or infinite, and leaves nothing behind.
std::filesystem::path import_hugging_face(const Reader& from, const Json& model, const std::filesystem::path& store);

}  // namespace zrt::runtime::checkpoint
