#include "models/common/expert_params.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::models {

std::unique_ptr<const Mlp> add_experts(LayerForm& form, const std::string& prefix, const Experts& experts,
                                       ExpertMlp::Kind kind, const ExpertNames& names, float small) {
  const int64_t C = form.sizes.hidden;
  const auto share = static_cast<double>(experts.choices()) / static_cast<double>(experts.number);
  ExpertMlp::Parts parts;
  parts.router = form.params.size();
  form.params.push_back({prefix + "gate.weight", {experts.number, C}, Init::normal, 0.02f});
  // Each rank has the gradients of its own part of every expert.
  form.params.back().summed = form.sizes.degrees.tensor > 1;
  for (int64_t e = 0; e < experts.number; ++e) {
    const std::string expert = fmt::format("{}experts.{}.", prefix, e);
    const auto add = [&](const char* name, bool down) {
      const Linear whole{.in = down ? experts.ffn : C, .out = down ? C : experts.ffn, .shared = down};
      const Product product = form.add_product(expert + name, whole, down ? small : 0.02f);
      form.params.back().share = share;
      return product;
    };
    ExpertMlp::Parts own;
    if (kind == ExpertMlp::Kind::swiglu) own.gate = add(names.gate, false);
    own.up = add(names.up, false);
    own.down = add(names.down, true);
    if (e == 0) parts.gate = own.gate, parts.up = own.up, parts.down = own.down;
  }
  return std::make_unique<ExpertMlp>(experts, C, parts, kind);
}

void check_experts(const Experts& experts, int64_t layers) {
  const auto refuse = [](const std::string& what) { throw core::ConfigError("model.experts." + what); };
  if (experts.number == 0) return;
  if (experts.number < 1 || experts.ffn < 1 || experts.every < 1 || experts.every > layers) {
    refuse(
        fmt::format("number is {}, ffn {} and every {}; each must be at least 1, and the last at most model.layers = "
                    "{}.",
                    experts.number, experts.ffn, experts.every, layers));
  }
  if (experts.prototypes > 1 && experts.normalised) {
    refuse(fmt::format("norm_topk_prob makes every gate 1 with prototypes = {}; leave one of them out.",
                       experts.prototypes));
  }
  if (experts.top_k < 1 || experts.prototypes < 1 || experts.number % experts.prototypes != 0) {
    refuse(fmt::format("number is {}, prototypes {} and top_k {}; prototypes must divide the number of experts.",
                       experts.number, experts.prototypes, experts.top_k));
  }
  if (experts.choices() > experts.number) {
    refuse(fmt::format("top_k is {}, but there are {} experts to choose from.", experts.top_k,
                       experts.number / experts.prototypes));
  }
  if (experts.capacity_factor < 0 || experts.aux_loss < 0 || experts.z_loss < 0) {
    refuse(fmt::format("capacity_factor is {}, aux_loss {} and z_loss {}; none may be negative.",
                       experts.capacity_factor, experts.aux_loss, experts.z_loss));
  }
}

}  // namespace zrt::models
