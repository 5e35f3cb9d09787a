#include "models/llama/experts_json.h"

#include <fmt/format.h>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

constexpr std::string_view our_matrices[] = {"gate_proj", "up_proj", "down_proj"};

// Replaces the last but one component, a matrix's name, behind ".experts.NUMBER.".
std::string with_matrix(const std::string& name, const auto& from, const auto& to) {
  const size_t experts = name.find(".experts.");
  if (experts == std::string::npos) return name;
  for (size_t i = 0; i < std::size(our_matrices); ++i) {
    const std::string end = fmt::format(".{}.weight", from[i]);
    if (name.ends_with(end)) return fmt::format("{}.{}.weight", name.substr(0, name.size() - end.size()), to[i]);
  }
  return name;
}

std::string with_part(const std::string& name, std::string_view from, std::string_view to) {
  for (const char* behind : {".gate.", ".experts."}) {
    const std::string part = fmt::format(".{}{}", from, behind);
    const size_t at = name.find(part);
    if (at != std::string::npos)
      return name.substr(0, at) + fmt::format(".{}{}", to, behind) + name.substr(at + part.size());
  }
  return name;
}

}  // namespace

std::string expert_tensor_name(const ExpertNamesInFiles& names, const std::string& parameter) {
  return with_part(with_matrix(parameter, our_matrices, names.matrices), "mlp", names.part);
}

std::string expert_parameter_name(const ExpertNamesInFiles& names, const std::string& tensor) {
  return with_part(with_matrix(tensor, names.matrices, our_matrices), names.part, "mlp");
}

std::vector<FusedPart> fused_experts(const OrderedJson& model, const std::string& tensor) {
  const bool first = tensor.ends_with(".mlp.experts.gate_up_proj");
  if (!first && !tensor.ends_with(".mlp.experts.down_proj")) return {};
  const std::string layer = tensor.substr(0, tensor.rfind('.') + 1);
  const OrderedJson& experts = model.at("experts");
  const int64_t number = experts.at("number"), ffn = experts.at("ffn"), hidden = model.at("hidden");
  std::vector<FusedPart> parts;
  for (int64_t e = 0; e < number; ++e) {
    const std::string expert = fmt::format("{}{}.", layer, e);
    if (first) {
      parts.push_back({expert + "gate_proj.weight", ffn}), parts.push_back({expert + "up_proj.weight", ffn});
    } else {
      parts.push_back({expert + "down_proj.weight", hidden});
    }
  }
  return parts;
}

LlamaFeature experts(const ExpertDefaults& defaults) {
  using namespace core::keys;
  return {
      .sections = {{"model", "", Parser::own, nullptr, experts_section_key()},
                   {"model.experts", "", Parser::own, nullptr, experts_keys()}},
      // Without the first, the second adds nothing to the loss.
      .file_keys = {{"output_router_logits", "[false, null]", ConfigKey::Otherwise::warn}, {"router_aux_loss_coef"}},
      .read = [defaults](Values& values, const ModelSizes&, LlamaConfig& config) {
        ExpertDefaults own = defaults;
        if (own.ffn == 0) own.ffn = config.ffn;
        own.layers = config.layers;
        values.check([&] { config.experts = read_experts(values, own); });
      }};
}

void check_written_experts(const OrderedJson& model, const std::map<std::string, OrderedJson>& only) {
  std::map<std::string, OrderedJson> all = only;
  all.emplace("prototypes", 1);
  for (const auto& [key, value] : all) {
    const OrderedJson& own = model.at("experts." + key);
    if (own == value) continue;
    refuse_config("model.experts." + key, fmt::format("{} has no form at Hugging Face, where models of type {} have {}",
                                                      own.dump(), model.at("type").dump(), value.dump()));
  }
}

}  // namespace zrt::models
