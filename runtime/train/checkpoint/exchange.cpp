#include "runtime/train/checkpoint/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/copy.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t chunk = 1 << 18;  // elements on their way

// The parameters that the file's tensor holds one behind the other.
std::vector<std::string> parameters_of(const Reader& reader, const std::string& tensor) {
  std::vector<std::string> names;
  for (const models::FusedPart& part : models::fused_tensor(reader.manifest().model, tensor).parts)
    names.push_back(part.parameter);
  if (names.empty()) names.push_back(*models::parameter_name(reader.manifest().model, tensor));
  return names;
}

// Its shape, for which the parameters must be what the model says.
std::vector<int64_t> shape_of(const Reader& reader, const std::string& tensor) {
  const models::FusedTensor fused = models::fused_tensor(reader.manifest().model, tensor);
  if (fused.parts.empty()) return reader.weights().shape(parameters_of(reader, tensor).front());
  for (const auto& [parameter, rows] : fused.parts) {
    const std::vector<int64_t>&found = reader.weights().shape(parameter), needed{rows, fused.shape.back()};
    if (found == needed) continue;
    throw core::DataError(
        fmt::format("{}: '{}' is [{}], and the model of its manifest needs [{}]; the checkpoint is of another model",
                    reader.folder().string(), parameter, fmt::join(found, ", "), fmt::join(needed, ", ")));
  }
  return fused.shape;
}

// One file of an export, tensor by tensor.
void write_file(const fs::path& path, SafetensorsHeader header, const Reader& reader, core::DType to) {
  core::NewFile file(path);
  const std::string head = lay_out(header);
  file.write(head.data(), head.size());
  std::vector<float> values;
  std::vector<uint16_t> rounded;
  std::vector<std::string> parameters;  // of all tensors, one behind the other
  for (const TensorEntry& tensor : header.tensors) {
    for (const std::string& name : parameters_of(reader, tensor.name)) parameters.push_back(name);
  }
  MergedWeights merged(reader);
  for (const std::string& name : parameters) {
    const int64_t count = reader.weights().elements(name);
    for (int64_t done = 0; done < count; done += static_cast<int64_t>(values.size())) {
      values.resize(std::min<size_t>(chunk, static_cast<size_t>(count - done)));
      merged.read(name, done, values, to);
      if (to == core::DType::f32) {
        file.write(values.data(), values.size() * sizeof(float));
        continue;
      }
      rounded.resize(values.size());
      std::transform(values.begin(), values.end(), rounded.begin(),
                     [&](float v) { return to == core::DType::bf16 ? core::to_bf16(v).bits : core::to_f16(v).bits; });
      file.write(rounded.data(), rounded.size() * sizeof(uint16_t));
    }
  }
  file.keep();
}

}  // namespace

std::vector<std::string> export_hugging_face(const Reader& reader, const fs::path& folder,
                                             const ExportOptions& options) {
  const fs::path out = folder.has_filename() ? folder : folder.parent_path();  // "name/"
  if (out.empty()) throw core::DataError("the folder to export to has no name");
  if (fs::exists(out)) throw core::DataError(fmt::format("{}: exists already; name a new folder", out.string()));
  reader.require_base();
  const Json& model = reader.manifest().model;
  const Json config = [&] {
    try {
      Json made = models::to_hugging_face(model, options.type);
      take_settings(options.carried, made);
      return made;
    } catch (const Json::exception& error) {
      throw core::DataError(
          fmt::format("{}: its manifest does not describe the model: {}", reader.folder().string(), error.what()));
    }
  }();
  const std::string type = model.at("type").get<std::string>();
  const bool fused_experts = has_fused_experts(reader.manifest());
  const char* dtype = options.type == core::DType::bf16 ? "BF16" : options.type == core::DType::f16 ? "F16" : "F32";

  std::vector<SafetensorsHeader> files;
  uint64_t total = 0, held = 0;
  std::set<std::string> known;
  for (const std::string& name : reader.weights().names()) {
    if (MergedWeights::is_adapter(name)) continue;
    TensorEntry tensor{models::hugging_face_name(type, name, fused_experts), dtype, {}, 0, 0};
    if (!known.insert(tensor.name).second) continue;  // a part of one that is there already
    tensor.shape = shape_of(reader, tensor.name);
    const uint64_t bytes = static_cast<uint64_t>(tensor.elements()) * core::dtype_size(options.type);
    if (files.empty() || held + bytes > options.shard_bytes) files.emplace_back(), held = 0;
    files.back().tensors.push_back(std::move(tensor));
    held += bytes;
    total += bytes;
  }
  const fs::path temporary = out.parent_path() / ("." + out.filename().string() + ".export.tmp");  // nobody else's
  fs::remove_all(temporary);
  core::make_folder(temporary);
  try {
    std::vector<std::string> names;
    Json index{{"metadata", {{"total_size", total}}}, {"weight_map", Json::object()}};
    for (size_t k = 0; k < files.size(); ++k) {
      names.push_back(files.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, files.size()));
      for (const TensorEntry& tensor : files[k].tensors) append(index["weight_map"], tensor.name, names.back());
      write_file(temporary / names.back(), files[k], reader, options.type);
    }
    if (files.size() > 1) {
      core::write_durably(temporary / index_name, index.dump(2) + "\n");
      names.push_back(index_name);
    }
    core::write_durably(temporary / "config.json", config.dump(2) + "\n");
    names.push_back("config.json");
    for (const auto& [name, text] : options.carried) {
      if (name == "config.json") continue;
      write_below(temporary, name, text);
      names.push_back(name);
    }
    core::rename_path(temporary, out);
    core::sync_folder(out.has_parent_path() ? out.parent_path() : ".");
    return names;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

namespace {

// The folders that must be made for `path` to be one, innermost first.
std::vector<fs::path> missing_folders(const fs::path& path) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(path); !fs::exists(at); at = at.parent_path()) missing.push_back(at);
  return missing;
}

}  // namespace

fs::path import_hugging_face(const Reader& from, const Json& model, const fs::path& store) {
  if (!list_checkpoints(store).empty()) {
    throw core::DataError(fmt::format("{}: holds checkpoints already; name a new folder", store.string()));
  }
  require_room(store, plan_copy(from));
  const std::vector<fs::path> missing = missing_folders(store);
  try {
    core::make_folder(store);
    Manifest manifest;
    manifest.model = model;
    manifest.made_by = {{"imported", true}};
    keep_fused_experts(manifest, has_fused_experts(from.manifest()));
    copy_checkpoint(from, manifest, store);
  } catch (...) {
    std::error_code ignored;
    for (const fs::path& made : missing) fs::remove(made, ignored);
    throw;
  }
  return list_checkpoints(store).front().folder;
}

}  // namespace zrt::runtime::checkpoint
