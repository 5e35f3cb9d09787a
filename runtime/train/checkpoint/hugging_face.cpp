#include "runtime/train/checkpoint/hugging_face.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";

struct WeightFiles {
  std::vector<fs::path> paths;
  std::vector<std::string> tensors;  // that the index says lie in them
};

// The files that a folder's index names, or its only one.
WeightFiles weight_files(const fs::path& folder) {
  const fs::path index = folder / index_name;
  if (!fs::exists(index)) {
    if (fs::exists(folder / single_name)) return {{folder / single_name}, {}};
    throw core::DataError(fmt::format(
        "{}: holds neither {} nor {}; weights of another format must be saved as safetensors first (in transformers: "
        "save_pretrained)",
        folder.string(), single_name, index_name));
  }
  const Json json = parse_strict_json(core::read_text(index, max_header_bytes), index.string());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) throw core::DataError(index.string() + ": has no 'weight_map'");
  WeightFiles files;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    // Names come from outside and must not lead elsewhere.
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.front() == '.' || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw core::DataError(
          fmt::format("{}: tensor '{}' lies in {}, which is no plain file name", index.string(), tensor, file.dump()));
    }
    files.tensors.push_back(tensor);
    if (!names.insert(name).second) continue;
    if (!fs::exists(folder / name)) {
      throw core::DataError(fmt::format("{}: tensor '{}' lies in '{}', which the folder does not hold; download it",
                                        index.string(), tensor, name));
    }
    files.paths.push_back(folder / name);
  }
  return files;
}

}  // namespace

bool is_hugging_face(const fs::path& folder) {
  if (fs::exists(folder / manifest_name) || !list_checkpoints(folder / "checkpoints").empty()) return false;
  return fs::exists(folder / "config.json") || fs::exists(folder / single_name) || fs::exists(folder / index_name);
}

Reader open_hugging_face(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw core::DataError(fmt::format("{}: is no folder", folder.string()));
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) {
    throw core::DataError(
        fmt::format("{}: has no config.json, which says what model the weights are of; copy it from where they came",
                    folder.string()));
  }
  const Json json = parse_strict_json(core::read_text(config, 16u << 20), config.string(), 16);
  Json model = models::from_hugging_face(json, config.string());
  const WeightFiles files = weight_files(folder);
  TensorSet tensors(folder, files.paths);
  for (const std::string& name : files.tensors) {
    if (tensors.has(name)) continue;
    throw core::DataError(
        fmt::format("{}: none of the files holds tensor '{}', which {} names; a file is of another "
                    "model or version: download them all again",
                    folder.string(), name, index_name));
  }
  const std::string type = model["type"].get<std::string>();
  tensors.rename([&](const std::string& name) { return models::parameter_name(model, name); });
  for (const std::string& name : tensors.names()) {
    if (is_weight_type(tensors.dtype(name))) continue;
    throw core::DataError(fmt::format(
        "{}: tensor '{}' has dtype {}; legal are {}. Weights that were quantised must be saved in one of them first",
        folder.string(), models::hugging_face_name(type, name), tensors.dtype(name), weight_types));
  }
  return Reader(folder, std::move(model), std::move(tensors));
}

}  // namespace zrt::runtime::checkpoint
