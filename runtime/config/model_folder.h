// The model that a folder describes: of Hugging Face, of a run, or a checkpoint. Its weights are not looked at.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zrt::runtime::configuration {

struct FolderModel {
  std::string file;                            // that describes it
  std::map<std::string, nlohmann::json> keys;  // by path: "model.layers", "sparse_attention.mode"; none is null
  std::vector<std::string> warnings;           // of keys that zrt does not know
};

// Says whether the folder has config.json, a checkpoint's manifest or checkpoints.
bool holds_model(const std::filesystem::path& folder);

// Reads config.json; where there is none, the manifest of the checkpoint or of the newest one of the run. Throws
// DataError that says what the folder lacks, or which value of the file zrt does not have.
FolderModel read_model_folder(const std::filesystem::path& folder);

}  // namespace zrt::runtime::configuration
