#include "runtime/train/checkpoint/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/checkpoint/foreign_folder.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;
using models::SecondName;

constexpr const char* single_name = "model.safetensors";
constexpr const char* adapter_name = "adapter_config.json";

[[noreturn]] void refuse_folder(const fs::path& where, const std::string& what) {
  throw core::DataError(core::printable(fmt::format("{}: {}", where.string(), what)));
}

struct WeightFiles {
  std::vector<fs::path> paths;
  std::vector<std::string> tensors;  // that the index says lie in them
};

// The files that a folder's index names, or its only one.
WeightFiles weight_files(const fs::path& folder) {
  const fs::path index = folder / index_name;
  if (!fs::exists(index)) {
    if (fs::exists(folder / single_name)) return {{folder / single_name}, {}};
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      refuse_folder(folder, fmt::format("holds {} but neither {} nor {}, which says which tensors lie in which file; "
                                        "fetch that, too, or call a single file {}",
                                        entry.path().filename().string(), single_name, index_name, single_name));
    }
    refuse_folder(folder, fmt::format("holds neither {} nor {}; weights of another format must be saved as safetensors "
                                      "first (in transformers: save_pretrained)",
                                      single_name, index_name));
  }
  const Json json = parse_strict_json(core::read_text(index, max_header_bytes), index.string());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) refuse_folder(index, "has no 'weight_map'");
  WeightFiles files;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    // Names come from outside and must not lead elsewhere.
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.front() == '.' || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      refuse_folder(index, fmt::format("tensor '{}' lies in {}, which is no plain file name", tensor, file.dump()));
    }
    files.tensors.push_back(tensor);
    if (!names.insert(name).second) continue;
    if (!fs::exists(folder / name)) {
      refuse_folder(index,
                    fmt::format("tensor '{}' lies in '{}', which the folder does not hold; download it", tensor, name));
    }
    files.paths.push_back(folder / name);
  }
  if (!names.contains(single_name) && fs::exists(folder / single_name)) {
    refuse_folder(folder,
                  fmt::format("holds {} and {}, which names other files; the weights in them may differ: keep the "
                              "right one",
                              single_name, index_name));
  }
  return files;
}

// Throws unless both tensors have the same elements.
void require_equal(const fs::path& folder, const TensorSet& tensors, const SecondName& copy) {
  const std::string first = tensors.name_in_file(copy.parameter), second = tensors.name_in_file(copy.name);
  const auto refuse = [&](const std::string& what) {
    refuse_folder(folder,
                  fmt::format("config.json says that '{}' is '{}' ('tie_word_embeddings'), but {}. Where the two "
                              "are meant to differ, set tie_word_embeddings to false; else remove the wrong one",
                              second, first, what));
  };
  const std::vector<int64_t>& shape = tensors.shape(copy.parameter);
  if (tensors.shape(copy.name) != shape) {
    refuse(fmt::format("their shapes are [{}] and [{}]", fmt::join(tensors.shape(copy.name), ", "),
                       fmt::join(shape, ", ")));
  }
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  constexpr int64_t most = read_buffer_bytes / 4 / sizeof(float);
  std::vector<float> a, b;
  for (int64_t begin = 0; begin < count; begin += most) {
    a.resize(static_cast<size_t>(std::min(most, count - begin)));
    b.resize(a.size());
    tensors.read(copy.parameter, begin, a);
    tensors.read(copy.name, begin, b);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i])) continue;
      refuse(fmt::format("their elements {} are {} and {}", begin + static_cast<int64_t>(i), b[i], a[i]));
    }
  }
}

// Gives the parameters that files hold under a second name their own, and drops what is a copy.
void resolve_second_names(const fs::path& folder, const Json& model, TensorSet& tensors) {
  std::map<std::string, std::optional<std::string>> changes;
  for (const SecondName& second : models::second_names(model)) {
    if (!tensors.has(second.name)) continue;
    const bool both = tensors.has(second.parameter);
    if (both && second.tied) require_equal(folder, tensors, second);
    changes[second.name] = both ? std::nullopt : std::optional<std::string>(second.parameter);
  }
  tensors.rename([&](const std::string& name) {
    const auto change = changes.find(name);
    return change == changes.end() ? std::optional(name) : change->second;
  });
}

}  // namespace

bool is_hugging_face(const fs::path& folder) {
  if (fs::exists(folder / manifest_name) || !list_checkpoints(folder / "checkpoints").empty()) return false;
  return fs::exists(folder / "config.json") || fs::exists(folder / single_name) || fs::exists(folder / index_name);
}

Reader open_hugging_face(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  if (!fs::is_directory(folder)) refuse_folder(folder, "is no folder");
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) {
    refuse_foreign(folder);
    refuse_folder(folder, "has no config.json, which says what model the weights are of; copy it from where they came");
  }
  if (fs::exists(folder / adapter_name)) {
    refuse_folder(folder,
                  fmt::format("has {}: the weights are meant to be changed by an adapter, which zrt does not do; "
                              "merge it into the weights first",
                              adapter_name));
  }
  const Json json = parse_strict_json(core::read_text(config, 16u << 20), config.string(), 16);
  Json model = models::from_hugging_face(json, config.string(), warn);
  const WeightFiles files = weight_files(folder);
  TensorSet tensors(folder, files.paths);
  for (const std::string& name : files.tensors) {
    if (tensors.has(name)) continue;
    refuse_folder(folder,
                  fmt::format("none of the files holds tensor '{}', which {} names; a file is of another model or "
                              "version: download them all again",
                              name, index_name));
  }
  const bool fused_experts = find_fused_experts(folder, model, tensors);
  for (const std::string& name : tensors.names()) {
    const models::FusedTensor fused = models::fused_tensor(model, name);
    std::vector<TensorSet::Part> parts;
    for (const models::FusedPart& part : fused.parts) parts.push_back({part.parameter, part.rows});
    if (!parts.empty()) tensors.split(name, parts, fused.shape);
  }
  tensors.rename([&](const std::string& name) { return models::parameter_name(model, name); });
  for (const std::string& name : tensors.names()) {
    if (is_weight_type(tensors.dtype(name))) continue;
    refuse_folder(folder,
                  fmt::format("tensor '{}' has dtype {}; legal are {}. Weights that were quantised must be saved "
                              "in one of them first",
                              tensors.name_in_file(name), tensors.dtype(name), weight_types));
  }
  resolve_second_names(folder, model, tensors);
  return Reader(folder, std::move(model), std::move(tensors), fused_experts);
}

}  // namespace zrt::runtime::checkpoint
