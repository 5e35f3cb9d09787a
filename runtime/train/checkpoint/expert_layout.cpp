#include "runtime/train/checkpoint/expert_layout.h"

#include <fmt/format.h>

#include <optional>

#include "core/error.h"
#include "core/printable.h"
#include "models/hugging_face.h"

namespace zrt::runtime::checkpoint {
namespace {

constexpr const char* fused_key = "fused_experts";

// Returns the place of an expert's parameter that the tensor is; nothing for any other tensor.
std::optional<models::ExpertPlace> place_in_layer(const Json& model, const std::string& tensor) {
  const std::optional<std::string> parameter = models::parameter_name(model, tensor);
  return parameter ? models::expert_place(model.at("type"), *parameter) : std::nullopt;
}

bool holds_all_experts(const Json& model, const std::string& tensor) {
  const models::FusedTensor fused = models::fused_tensor(model, tensor);
  if (fused.parts.empty()) return false;
  const auto place = models::expert_place(model.at("type"), fused.parts.front().parameter);
  return place && place->tensor == tensor;
}

}  // namespace

bool find_fused_experts(const std::filesystem::path& folder, const Json& model, const TensorSet& tensors) {
  const auto shown = [&](const std::string& tensor) {
    return fmt::format("tensor '{}' of shape [{}]", tensor, fmt::join(tensors.shape(tensor), ", "));
  };
  const auto refuse = [&](const std::string& what) {
    throw core::DataError(core::printable(fmt::format("{}: {}", folder.string(), what)));
  };
  std::string whole, single;
  std::optional<int64_t> experts;
  for (const std::string& name : tensors.names()) {
    if (const auto place = place_in_layer(model, name)) {
      if (single.empty()) single = name;
      if (!experts) experts = models::fused_tensor(model, place->tensor).shape.front();
      if (place->expert < *experts) continue;
      refuse(
          fmt::format("{} is of expert {}, counted from 0, and the model has {} experts. Correct their number in "
                      "config.json, or save the weights without those that are too many",
                      shown(name), place->expert, *experts));
    } else if (whole.empty() && holds_all_experts(model, name)) {
      whole = name;
    }
  }
  if (!whole.empty() && !single.empty()) {
    refuse(
        fmt::format("{} holds all experts of a layer, and {} a matrix of one expert. Files have a tensor of shape "
                    "[{}] for all experts, or one for each matrix: keep those of one layout, in every layer",
                    shown(whole), shown(single), fmt::join(models::fused_tensor(model, whole).shape, ", ")));
  }
  return !whole.empty();
}

bool has_fused_experts(const Manifest& manifest) {
  if (!manifest.made_by.is_object()) return false;
  const auto found = manifest.made_by.find(fused_key);
  return found != manifest.made_by.end() && *found == true;
}

void keep_fused_experts(Manifest& manifest, bool fused) {
  if (fused) manifest.made_by[fused_key] = true;
}

}  // namespace zrt::runtime::checkpoint
