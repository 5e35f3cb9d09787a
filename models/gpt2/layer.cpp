#include "models/gpt2/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "models/common/expert_params.h"
#include "models/common/gelu_mlp.h"
#include "models/common/layer.h"

namespace zrt::models {

std::unique_ptr<Block> make_gpt2_layer(const Gpt2Config& config, int64_t index) {
  const int64_t C = config.hidden;
  const std::string name = fmt::format("h.{}", index);
  // Output projections start smaller, so that the residual stream does not grow with depth.
  const float small = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  constexpr bool shared = true;
  LayerForm form{.sizes = {C, config.sequence, config.vocab, config.dropout, config.degrees, config.adapters},
                 .name = name,
                 .norm = {NormKind::layer, C, 1e-5f},
                 .dropout_number = index};
  const auto add = [&](const char* suffix, int64_t in, int64_t out, float deviation, bool shares, int64_t sections) {
    const Linear whole{.in = in, .out = out, .stored = Linear::Stored::in_out, .bias = true, .shared = shares};
    return form.add_product(name + "." + suffix, whole, deviation, sections);
  };
  form.attention = Attention(form.sizes, config.heads, config.heads, C / config.heads, config.sparse.of(index));
  form.first_norm_weight = form.add_norm(name + ".ln_1");
  form.attention.strips = {add("attn.c_attn", C, 3 * C, 0.02f, !shared, 3)};
  form.attention.output = add("attn.c_proj", C, C, small, shared, 1);
  form.second_norm_weight = form.add_norm(name + ".ln_2");
  if (config.experts.has(index)) {
    form.mlp =
        add_experts(form, name + ".mlp.", config.experts, ExpertBank::Kind::gelu, {nullptr, "c_fc", "c_proj"}, small);
  } else {
    const Product in = add("mlp.c_fc", C, 4 * C, 0.02f, !shared, 1);
    const Product out = add("mlp.c_proj", 4 * C, C, small, shared, 1);
    form.mlp = std::make_unique<GeluMlp>(in, out);
  }
  return std::make_unique<Layer>(std::move(form));
}

}  // namespace zrt::models
