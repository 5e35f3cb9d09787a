// A folder of Hugging Face, read where it lies: config.json, and model.safetensors or several files with an index.
#pragma once
#include <filesystem>

#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime::checkpoint {

inline constexpr const char* index_name = "model.safetensors.index.json";

// Whether the folder is meant as one of Hugging Face: it has some of their files, and no checkpoint of ours.
bool is_hugging_face(const std::filesystem::path& folder);

// Opens it as weights by our names; the model is as config.json describes it. Only the headers are read. Throws
// DataError, also for weights of a type that cannot be read.
Reader open_hugging_face(const std::filesystem::path& folder);

}  // namespace zrt::runtime::checkpoint
