#include "models/llama/experts_json.h"

#include <fmt/format.h>

#include <charconv>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

constexpr int64_t most_experts = 1 << 20;  // as of model.experts.number
constexpr std::string_view our_matrices[] = {"gate_proj", "up_proj", "down_proj"};
constexpr std::string_view experts_part = ".mlp.experts.";
constexpr std::string_view fused_gate_up = ".mlp.experts.gate_up_proj", fused_down = ".mlp.experts.down_proj";

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

// Reads a size of experts from a section with objects in it, or from one with keys as "experts.number".
int64_t own_size(const OrderedJson& model, const std::string& key) {
  const auto experts = model.find("experts");
  return experts == model.end() ? model.at("experts." + key) : experts->at(key);
}

}  // namespace

std::string expert_tensor_name(const ExpertNamesInFiles& names, const std::string& parameter) {
  return with_part(with_matrix(parameter, our_matrices, names.matrices), "mlp", names.part);
}

std::string expert_parameter_name(const ExpertNamesInFiles& names, const std::string& tensor) {
  return with_part(with_matrix(tensor, names.matrices, our_matrices), names.part, "mlp");
}

FusedTensor fused_experts(const OrderedJson& model, const std::string& tensor) {
  const bool first = tensor.ends_with(fused_gate_up);
  if (!first && !tensor.ends_with(fused_down)) return {};
  const std::string layer = tensor.substr(0, tensor.rfind('.') + 1);
  const int64_t number = own_size(model, "number"), ffn = own_size(model, "ffn"), hidden = model.at("hidden");
  if (number > most_experts) {
    refuse_config("model.experts.number", fmt::format("{} is more than {}", number, most_experts));
  }
  FusedTensor made;
  made.shape = first ? std::vector{number, 2 * ffn, hidden} : std::vector{number, hidden, ffn};
  for (int64_t e = 0; e < number; ++e) {
    const std::string expert = fmt::format("{}{}.", layer, e);
    if (first) {
      made.parts.push_back({expert + "gate_proj.weight", ffn}), made.parts.push_back({expert + "up_proj.weight", ffn});
    } else {
      made.parts.push_back({expert + "down_proj.weight", hidden});
    }
  }
  return made;
}

std::optional<ExpertPlace> place_of_expert(const std::string& parameter) {
  const size_t at = parameter.find(experts_part);
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = parameter.data() + at + experts_part.size();
  const char* const end = parameter.data() + parameter.size();
  int64_t expert = -1;
  const auto [rest, error] = std::from_chars(begin, end, expert);
  if (error != std::errc() || expert < 0) return std::nullopt;
  const std::string_view matrix(rest, static_cast<size_t>(end - rest));
  for (size_t i = 0; i < std::size(our_matrices); ++i) {
    if (matrix != fmt::format(".{}.weight", our_matrices[i])) continue;
    return ExpertPlace{parameter.substr(0, at) + std::string(i == 2 ? fused_down : fused_gate_up), expert};
  }
  return std::nullopt;
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
