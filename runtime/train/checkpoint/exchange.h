// Checkpoints to and from plain Hugging Face directories: config.json and model.safetensors, or several files with an
// index.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime::checkpoint {

struct ExportOptions {
  core::DType type = core::DType::f32;   // of the weights: fp32, bf16 or fp16
  uint64_t shard_bytes = 5'000'000'000;  // of one file, unless one tensor is larger
};

// Writes the consolidated weights to a new folder; it appears under its name when all of it is on disk. Returns the
// files' names. Throws DataError.
std::vector<std::string> export_hugging_face(const Reader& reader, const std::filesystem::path& out,
                                             const ExportOptions& options);

// A Hugging Face folder: its weights by our names, and the section `model` of its configuration.
struct HuggingFaceModel {
  Json model;
  TensorSet tensors;
  std::vector<std::pair<std::string, std::string>> names;  // ours, the file's
};
HuggingFaceModel open_hugging_face(const std::filesystem::path& folder);

// Writes the weights as checkpoint step_0 of a store. `model` is the resolved section. Returns the checkpoint's folder.
std::filesystem::path import_hugging_face(const HuggingFaceModel& from, const Json& model,
                                          const std::filesystem::path& store);

}  // namespace zrt::runtime::checkpoint
