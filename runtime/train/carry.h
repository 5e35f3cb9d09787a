// A run keeps files beside its checkpoints for its exports: see checkpoint/carried.h.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/train/checkpoint/carried.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime {

// Makes the folder `to`, unless it is there: with the files of the Hugging Face folder that the run begins with, of the
// run whose checkpoint it goes on from, or of model.from; else with the tokenizer that made its data. Where that gives
// ids other texts than the folder's, weights of the folder are refused, and mere sizes of it get the data's. `warn`
// hears of that, of files that are left, and of tokenizers that cannot be compared. Throws DataError.
void carry_files(const Config& config, const checkpoint::Reader* resumed, const std::filesystem::path& to,
                 const std::function<void(const std::string&)>& warn);

}  // namespace zrt::runtime
