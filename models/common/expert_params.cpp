#include "models/common/expert_params.h"

#include <fmt/format.h>

#include "core/error.h"
#include "models/common/expert_mlp.h"
#include "models/common/gated_mlp.h"
#include "models/common/gelu_mlp.h"
#include "models/common/shared_expert_mlp.h"
#include "models/common/spread_expert_mlp.h"

namespace zrt::models {
namespace {

// One MLP as wide as all shared experts together, which adds to the gradient of its input.
std::unique_ptr<const Mlp> add_shared_experts(LayerForm& form, const std::string& stem, int64_t width,
                                              const ExpertNames& names, bool gated, float small) {
  const int64_t C = form.sizes.hidden;
  const auto add = [&](const char* name, bool down) {
    const Linear whole{.in = down ? width : C, .out = down ? C : width, .shared = down};
    return form.add_product(stem + name, whole, down ? small : 0.02f);
  };
  Product gate;
  if (gated) gate = add(names.gate, false);
  Product up = add(names.up, false);
  const Product down = add(names.down, true);
  (gated ? gate : up).linear.joined = true;
  if (gated) return std::make_unique<GatedMlp>(gate, up, down);
  return std::make_unique<GeluMlp>(up, down);
}

}  // namespace

std::unique_ptr<const Mlp> add_experts(LayerForm& form, const std::string& prefix, const Experts& experts,
                                       ExpertBank::Kind kind, const ExpertNames& names, float small) {
  const int64_t C = form.sizes.hidden;
  const int places = form.sizes.degrees.expert;
  const int64_t each = experts.number / places;
  const bool gated = kind == ExpertBank::Kind::swiglu;
  const auto share = static_cast<double>(experts.choices()) / static_cast<double>(experts.number);
  const size_t router = form.params.size();
  form.params.push_back({prefix + "gate.weight", {experts.number, C}, Init::normal, 0.02f});
  // Each rank has the gradients of its own part of every expert.
  form.params.back().summed = form.sizes.degrees.tensor > 1;
  const std::string stem = prefix + "experts.";
  ExpertBank::Parts first;
  for (int64_t e = 0; e < each; ++e) {
    const auto add = [&](const char* name, bool down) {
      const Linear whole{.in = down ? experts.ffn : C, .out = down ? C : experts.ffn, .shared = down};
      const Product product = add_product(form.params, form.sizes.degrees.tensor, fmt::format("{}{}.{}", stem, e, name),
                                          whole, down ? small : 0.02f);
      form.params.back().share = share;
      if (places == 1) return product;
      form.params.back().spread =
          Spread{places, e, each, form.params.back().name.size() - stem.size() - std::to_string(e).size(),
                 static_cast<uint32_t>(each * (gated ? 3 : 2))};
      return product;
    };
    ExpertBank::Parts own;
    if (gated) own.gate = add(names.gate, false);
    own.up = add(names.up, false);
    own.down = add(names.down, true);
    if (e == 0) first = own;
  }
  const Router routed(experts, C, router, places);
  const ExpertBank bank(C, first, kind);
  std::unique_ptr<const Mlp> mlp;
  if (places == 1) {
    mlp = std::make_unique<ExpertMlp>(experts, C, routed, bank);
  } else {
    mlp = std::make_unique<SpreadExpertMlp>(experts, C, places, routed, bank);
  }
  if (experts.shared == 0) return mlp;
  auto dense = add_shared_experts(form, prefix + "shared_experts.", experts.shared * experts.ffn, names, gated, small);
  return std::make_unique<SharedExpertMlp>(C, std::move(mlp), std::move(dense));
}

void check_experts(const Experts& experts, int64_t layers, const Degrees& degrees) {
  const auto refuse = [](const std::string& what) { throw core::ConfigError("model.experts." + what); };
  if (experts.number == 0) {
    if (degrees.expert == 1) return;
    throw core::ConfigError(fmt::format(
        "parallel.expert is {}, but the model has no experts to spread over ranks: give model.experts, or leave it "
        "out.",
        degrees.expert));
  }
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
  if (experts.number % degrees.expert != 0) {
    throw core::ConfigError(fmt::format(
        "parallel.expert is {}, which does not divide model.experts.number = {}: each rank has as many experts. Legal "
        "are divisors of both that number and the data-parallel ranks.",
        degrees.expert, experts.number));
  }
  if (experts.choices() > experts.number) {
    refuse(fmt::format("top_k is {}, but there are {} experts to choose from.", experts.top_k,
                       experts.number / experts.prototypes));
  }
  if (experts.shared < 0) refuse(fmt::format("shared is {}; it must be at least 0.", experts.shared));
  if (experts.capacity_factor < 0 || experts.aux_loss < 0 || experts.z_loss < 0) {
    refuse(fmt::format("capacity_factor is {}, aux_loss {} and z_loss {}; none may be negative.",
                       experts.capacity_factor, experts.aux_loss, experts.z_loss));
  }
}

}  // namespace zrt::models
