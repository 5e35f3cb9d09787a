#include "runtime/config/model_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/foreign_folder.h"
#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime::configuration {
namespace {

namespace fs = std::filesystem;
using checkpoint::Json;

constexpr const char* plain_name = "config.json";
constexpr uint64_t largest_config = 16u << 20;

// Keys of a manifest's model that say how it was trained, or where its sizes came from.
constexpr std::string_view left_out[] = {"preset", "from", "dropout", "mask_rate", "whole_words"};

// The manifest of the checkpoint that the folder is, or of its newest; "" for none.
fs::path manifest_of(const fs::path& folder) {
  if (fs::exists(folder / checkpoint::manifest_name)) return folder / checkpoint::manifest_name;
  for (const fs::path& store : {folder / "checkpoints", folder}) {
    const auto stored = checkpoint::list_checkpoints(store);
    if (!stored.empty()) return stored.front().folder / checkpoint::manifest_name;
  }
  return {};
}

void flatten(const Json& model, const std::string& path, std::map<std::string, nlohmann::json>& keys) {
  for (const auto& [name, value] : model.items()) {
    const std::string below = path + "." + name;
    if (value.is_object()) {
      flatten(value, below, keys);
    } else if (!value.is_null()) {
      keys[below] = value;
    }
  }
}

}  // namespace

bool holds_model(const fs::path& folder) {
  return fs::is_directory(folder) &&
         (fs::exists(folder / plain_name) || checkpoint::is_adapter_folder(folder) || !manifest_of(folder).empty());
}

FolderModel read_model_folder(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw core::DataError(core::printable(fmt::format("{}: is no folder", folder.string())));
  }
  FolderModel found;
  Json model;
  if (fs::exists(folder / plain_name)) {
    found.file = (folder / plain_name).string();
    const Json config = checkpoint::parse_strict_json(core::read_text(found.file, largest_config), found.file, 16);
    model =
        models::from_hugging_face(config, found.file, [&](const std::string& text) { found.warnings.push_back(text); });
  } else if (checkpoint::is_adapter_folder(folder)) {
    found.file = (folder / checkpoint::adapter_config_name).string();
    const auto warn = [&](const std::string& text) { found.warnings.push_back(text); };
    model = checkpoint::open_adapters(folder, warn).manifest().model;
  } else {
    const fs::path manifest = manifest_of(folder);
    if (manifest.empty()) checkpoint::refuse_foreign(folder);
    if (manifest.empty()) {
      throw core::DataError(core::printable(
          fmt::format("{}: has neither config.json, as folders of Hugging Face have, nor a checkpoint of zrt "
                      "(manifest.json, or checkpoints/step_*); name a folder that has, or copy config.json from where "
                      "the weights came",
                      folder.string())));
    }
    found.file = manifest.string();
    const std::string text = core::read_text(manifest, checkpoint::max_manifest_bytes);
    model = checkpoint::parse_manifest(text, found.file).model;
    for (const std::string_view name : left_out) model.erase(std::string(name));
  }
  for (const char* section : {"sparse_attention", "adapters"}) {
    const auto own = model.find(section);
    if (own == model.end()) continue;
    flatten(*own, section, found.keys);
    model.erase(own);
  }
  flatten(model, "model", found.keys);
  return found;
}

}  // namespace zrt::runtime::configuration
