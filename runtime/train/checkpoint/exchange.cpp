#include "runtime/train/checkpoint/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* index_name = "model.safetensors.index.json";
constexpr size_t chunk = 1 << 18;  // elements on their way

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// One file of an export, tensor by tensor.
void write_file(const fs::path& path, SafetensorsHeader header, const Reader& reader, const std::string& type,
                core::DType to) {
  core::NewFile file(path);
  const std::string head = lay_out(header);
  file.write(head.data(), head.size());
  std::vector<float> values;
  std::vector<uint16_t> rounded;
  for (const TensorEntry& tensor : header.tensors) {
    const int64_t count = tensor.elements();
    for (int64_t done = 0; done < count; done += static_cast<int64_t>(values.size())) {
      values.resize(std::min<size_t>(chunk, static_cast<size_t>(count - done)));
      reader.read(*models::parameter_name(type, false, tensor.name), done, values);
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
  const Json& model = reader.manifest().model;
  const Json config = models::to_hugging_face(model, options.type);
  const std::string type = model.at("type").get<std::string>();
  const char* dtype = options.type == core::DType::bf16 ? "BF16" : options.type == core::DType::f16 ? "F16" : "F32";

  std::vector<SafetensorsHeader> files;
  uint64_t total = 0, held = 0;
  for (const std::string& name : reader.weights().names()) {
    const std::vector<int64_t>& shape = reader.weights().shape(name);
    const uint64_t bytes = static_cast<uint64_t>(elements_of(shape)) * core::dtype_size(options.type);
    if (files.empty() || held + bytes > options.shard_bytes) files.emplace_back(), held = 0;
    files.back().tensors.push_back({models::hugging_face_name(type, name), dtype, shape, 0, 0});
    held += bytes;
    total += bytes;
  }
  const fs::path temporary = out.string() + ".tmp";
  fs::remove_all(temporary);
  core::make_folder(temporary);
  try {
    std::vector<std::string> names;
    Json index{{"metadata", {{"total_size", total}}}, {"weight_map", Json::object()}};
    for (size_t k = 0; k < files.size(); ++k) {
      names.push_back(files.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, files.size()));
      for (const TensorEntry& tensor : files[k].tensors) index["weight_map"][tensor.name] = names.back();
      write_file(temporary / names.back(), files[k], reader, type, options.type);
    }
    if (files.size() > 1) {
      core::write_durably(temporary / index_name, index.dump(2) + "\n");
      names.push_back(index_name);
    }
    core::write_durably(temporary / "config.json", config.dump(2) + "\n");
    names.push_back("config.json");
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

// The weight files that a folder's index names, or its only one.
std::vector<fs::path> weight_files(const fs::path& folder) {
  const fs::path index = folder / index_name;
  if (!fs::exists(index)) {
    if (fs::exists(folder / "model.safetensors")) return {folder / "model.safetensors"};
    throw core::DataError(fmt::format("{}: holds neither model.safetensors nor {}", folder.string(), index_name));
  }
  const Json json = parse_strict_json(core::read_text(index, max_header_bytes), index.string());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) throw core::DataError(index.string() + ": has no 'weight_map'");
  std::set<fs::path> files;
  for (const auto& [tensor, file] : map->items()) {
    // Names come from outside and must not lead elsewhere.
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.front() == '.' || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw core::DataError(
          fmt::format("{}: tensor '{}' lies in {}, which is no plain file name", index.string(), tensor, file.dump()));
    }
    files.insert(folder / name);
  }
  return {files.begin(), files.end()};
}

}  // namespace

HuggingFaceModel open_hugging_face(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  const Json json = parse_strict_json(core::read_text(config, 16u << 20), config.string(), 16);
  HuggingFaceModel result{
      models::from_hugging_face(json, config.string()), TensorSet(folder, weight_files(folder)), {}};
  const std::string type = result.model["type"].get<std::string>();
  const bool tied = result.model["tied"].get<bool>();
  for (const std::string& name : result.tensors.names()) {
    if (const auto ours = models::parameter_name(type, tied, name)) result.names.emplace_back(*ours, name);
  }
  return result;
}

fs::path import_hugging_face(const HuggingFaceModel& from, const Json& model, const fs::path& store) {
  core::make_folder(store);
  if (!list_checkpoints(store).empty()) {
    throw core::DataError(fmt::format("{}: holds checkpoints already; name a new folder", store.string()));
  }
  const fs::path folder = begin_checkpoint(store, 0);
  try {
    Manifest manifest;
    manifest.model = model;
    manifest.made_by = {{"imported", true}};
    // A file at a time is held in memory.
    constexpr int64_t most = int64_t{1} << 28;  // elements
    std::vector<std::vector<float>> values;
    std::vector<Run> runs;
    int64_t held = 0;
    int shard = 0;
    const auto flush = [&] {
      for (const auto& [name, record] : write_shard(folder, shard, runs)) manifest.files[name] = record;
      ++shard;
      values.clear();
      runs.clear();
      held = 0;
    };
    for (const auto& [ours, theirs] : from.names) {
      const std::vector<int64_t>& shape = from.tensors.shape(theirs);
      const int64_t count = elements_of(shape);
      if (held > 0 && held + count > most) flush();
      values.emplace_back(static_cast<size_t>(count));
      from.tensors.read(theirs, 0, values.back());
      runs.push_back(
          {ours, shape, 0, count, core::Form::f32, reinterpret_cast<const std::byte*>(values.back().data())});
      held += count;
    }
    if (!runs.empty()) flush();
    commit_checkpoint(store, folder, manifest);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  return list_checkpoints(store).front().folder;
}

}  // namespace zrt::runtime::checkpoint
