// A folder of Hugging Face, read where it lies: config.json, and model.safetensors or several files with an index.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime::checkpoint {

inline constexpr const char* index_name = "model.safetensors.index.json";

// True where the folder is meant as one of Hugging Face: it has some of their files, and no checkpoint of ours.
bool is_hugging_face(const std::filesystem::path& folder);

// Opens it as weights by our names; the model is as config.json describes it. Only the headers are read, and both
// copies of a tied tensor that the files hold twice. Throws DataError, also for weights of a type that cannot be read
// and for copies that differ. `warn`, if there is one, hears of keys of config.json that zrt does not know.
Reader open_hugging_face(const std::filesystem::path& folder, const std::function<void(const std::string&)>& warn = {});

}  // namespace zrt::runtime::checkpoint
