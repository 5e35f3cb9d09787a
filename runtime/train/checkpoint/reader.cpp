#include "runtime/train/checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

// The manifest's files in the folder itself, or below `optimizer`.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, const Manifest& manifest,
                                            bool states) {
  std::vector<std::filesystem::path> files;
  for (const auto& [name, record] : manifest.files) {
    if ((name.rfind("optimizer/", 0) == 0) == states) files.push_back(folder / name);
  }
  return files;
}

// Every name that a tensor of a shared layer has beside its own. `param` is where the parameter's name begins.
void name_layers(TensorSet& tensors, const models::Sharing& sharing, bool states) {
  for (const std::string& name : tensors.names()) {
    const size_t param = states ? name.find('.') + 1 : 0;
    const std::string kept = name.substr(param);
    const int64_t first = models::layer_of(kept), layers = models::sharers(sharing, kept);
    for (int64_t layer = first + 1; layer < first + layers; ++layer) {
      tensors.alias(name, name.substr(0, param) + models::with_layer(kept, layer));
    }
  }
}

}  // namespace

Json sharing_json(const models::Sharing& sharing) {
  return {{"groups", sharing.groups}, {"private", sharing.own}};
}

Reader::Reader(const std::filesystem::path& folder, bool hashes)
    : folder_(folder),
      manifest_(verify_checkpoint(folder, hashes)),
      weights_(folder, files_of(folder, manifest_, false)) {
  const auto states = files_of(folder, manifest_, true);
  if (!states.empty()) states_.emplace(folder, states);
  for (const std::string& name : weights_.names()) own_.insert(name);
  if (manifest_.made_by.is_object() && manifest_.made_by.contains(base_key)) {
    try {
      const Json& base = manifest_.made_by[base_key];
      base_ = base.at("folder").get<std::string>();
      add_base(base_, open_base(base, folder).weights());
    } catch (const std::exception& error) {
      base_error_ = error.what();
    }
  }
  const Json shared = manifest_.made_by.is_object() ? manifest_.made_by.value(shared_layers, Json()) : Json();
  if (shared.is_null()) return;
  try {
    sharing_ = models::Sharing{shared.at("groups"), shared.at("private")};
  } catch (const Json::exception& error) {
    throw core::DataError(fmt::format("{}: its manifest does not say which layers share their parameters: {}",
                                      folder.string(), error.what()));
  }
  name_layers(weights_, *sharing_, false);
  if (states_) name_layers(*states_, *sharing_, true);
}

Reader::Reader(const std::filesystem::path& folder, Json model, TensorSet weights, bool fused_experts)
    : folder_(folder), plain_(true), weights_(std::move(weights)) {
  manifest_.model = std::move(model);
  manifest_.made_by = {{"imported", true}};
  keep_fused_experts(manifest_, fused_experts);
  for (const std::string& name : weights_.names()) own_.insert(name);
}

std::string Reader::origin(const std::string& tensor) const {
  if (!sharing_) return tensor;
  const size_t param = weights_.has(tensor) ? 0 : tensor.find('.') + 1;
  return tensor.substr(0, param) + models::shared_name(*sharing_, tensor.substr(param));
}

void Reader::add_base(const std::filesystem::path& folder, const TensorSet& weights) {
  base_ = folder;
  weights_.include(weights);
}

void Reader::require_base() const {
  if (!base_error_.empty()) throw core::DataError(base_error_);
}

uint64_t Reader::table_bytes() const {
  return weights_.table_bytes() + (states_ ? states_->table_bytes() : 0);
}

void Reader::read(const std::string& tensor, int64_t begin, std::span<float> out) const {
  const bool state = !weights_.has(tensor) && states_ && states_->has(tensor);
  (state ? *states_ : weights_).read(tensor, begin, out);
}

void Reader::require_finite() const {
  constexpr int64_t most = 1 << 18;  // elements at a time
  std::vector<float> values;
  for (const TensorSet* set : {&weights_, states()}) {
    if (!set) continue;
    for (const std::string& name : set->names()) {
      if (set->is_alias(name)) continue;
      const int64_t count = set->elements(name);
      for (int64_t begin = 0; begin < count; begin += most) {
        values.resize(static_cast<size_t>(std::min(most, count - begin)));
        set->read_finite(name, begin, values, core::DType::f32);
      }
    }
  }
}

Reader open_checkpoint(const std::filesystem::path& path) {
  while (true) {
    const std::filesystem::path folder = find_checkpoint(path);
    try {
      return Reader(folder, false);
    } catch (const core::DataError&) {
      if (std::filesystem::exists(folder)) throw;
    }
  }
}

}  // namespace zrt::runtime::checkpoint
