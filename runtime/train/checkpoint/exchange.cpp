#include "runtime/train/checkpoint/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "core/ledger.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t chunk = 1 << 18;  // elements on their way

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// One file of an export, tensor by tensor.
void write_file(const fs::path& path, SafetensorsHeader header, const Reader& reader, core::DType to) {
  core::NewFile file(path);
  const std::string head = lay_out(header);
  file.write(head.data(), head.size());
  std::vector<float> values;
  std::vector<uint16_t> rounded;
  for (const TensorEntry& tensor : header.tensors) {
    const int64_t count = tensor.elements();
    for (int64_t done = 0; done < count; done += static_cast<int64_t>(values.size())) {
      values.resize(std::min<size_t>(chunk, static_cast<size_t>(count - done)));
      reader.weights().read_finite(*models::parameter_name(reader.manifest().model, tensor.name), done, values, to);
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
  const Json config = [&] {
    try {
      return models::to_hugging_face(model, options.type);
    } catch (const Json::exception& error) {
      throw core::DataError(
          fmt::format("{}: its manifest does not describe the model: {}", reader.folder().string(), error.what()));
    }
  }();
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

// What each file of an import will hold. The runs read `from` when they are written.
std::vector<std::vector<Run>> import_files(const Reader& from) {
  constexpr int64_t most = int64_t{1} << 28;  // elements of a file, unless one tensor has more
  std::vector<std::vector<Run>> files;
  int64_t held = 0;
  for (const std::string& name : from.weights().names()) {
    const std::vector<int64_t>& shape = from.weights().shape(name);
    const int64_t count = elements_of(shape);
    if (files.empty() || held + count > most) files.emplace_back(), held = 0;
    held += count;
    Run run{name, shape, 0, count};
    run.read = [&from, name](uint64_t skip, std::byte* to, uint64_t bytes) {
      from.weights().read_finite(name, static_cast<int64_t>(skip / sizeof(float)),
                                 {reinterpret_cast<float*>(to), static_cast<size_t>(bytes / sizeof(float))},
                                 core::DType::f32);
    };
    files.back().push_back(std::move(run));
  }
  return files;
}

ImportPlan plan_of(const Reader& from, const std::vector<std::vector<Run>>& files) {
  // Headers of the files to be written are about as long as those that are read. The rest is for the manifest.
  ImportPlan plan{2 * from.table_bytes() + write_buffer_bytes + read_buffer_bytes, 1 << 20};
  for (const std::vector<Run>& runs : files) plan.disk_bytes += shard_bytes(runs);
  return plan;
}

// The folders that must be made for `path` to be one, innermost first.
std::vector<fs::path> missing_folders(const fs::path& path) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(path); !fs::exists(at); at = at.parent_path()) missing.push_back(at);
  return missing;
}

void require_room(const fs::path& store, const std::vector<fs::path>& missing, uint64_t needed) {
  const fs::path there = missing.empty() ? store : missing.back().parent_path();
  const uint64_t free = core::free_bytes(there);
  if (free >= needed) return;
  throw core::DataError(
      fmt::format("{}: the checkpoint needs {} bytes ({}) but {} ({}) are free; make room, or name a folder on another "
                  "disk",
                  store.string(), needed, core::format_bytes(needed), free, core::format_bytes(free)));
}

}  // namespace

ImportPlan plan_import(const Reader& from) {
  return plan_of(from, import_files(from));
}

fs::path import_hugging_face(const Reader& from, const Json& model, const fs::path& store) {
  if (!list_checkpoints(store).empty()) {
    throw core::DataError(fmt::format("{}: holds checkpoints already; name a new folder", store.string()));
  }
  const std::vector<std::vector<Run>> files = import_files(from);
  const std::vector<fs::path> missing = missing_folders(store);
  require_room(store, missing, plan_of(from, files).disk_bytes);
  fs::path folder;
  try {
    core::make_folder(store);
    folder = begin_checkpoint(store, 0);
    Manifest manifest;
    manifest.model = model;
    manifest.made_by = {{"imported", true}};
    for (size_t k = 0; k < files.size(); ++k) manifest.files.merge(write_shard(folder, static_cast<int>(k), files[k]));
    commit_checkpoint(store, folder, manifest);
  } catch (...) {
    std::error_code ignored;
    if (!folder.empty()) fs::remove_all(folder, ignored);
    for (const fs::path& made : missing) fs::remove(made, ignored);
    throw;
  }
  return list_checkpoints(store).front().folder;
}

}  // namespace zrt::runtime::checkpoint
