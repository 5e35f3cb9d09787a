#include "models/gpt2/layer.h"

#include <fmt/format.h>

#include <cmath>

namespace zrt::models {

Gpt2Layer::Gpt2Layer(const Gpt2Config& config, int64_t index)
    : GeluLayer({config.hidden, config.sequence, config.vocab, config.dropout, config.degrees},
                fmt::format("h.{}", index), {NormKind::layer, config.hidden, 1e-5f}, config.heads, index,
                config.sparse.of(index)) {
  const int64_t C = config.hidden;
  // Output projections start smaller, so that the residual stream does not grow with depth.
  const float small = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  constexpr bool shared = true;
  const auto add = [&](const char* suffix, int64_t in, int64_t out, float deviation, bool shares, int64_t sections) {
    const Linear whole{.in = in, .out = out, .stored = Linear::Stored::in_out, .bias = true, .shared = shares};
    return add_product(params_, config.degrees.tensor, name_ + "." + suffix, whole, deviation, sections);
  };
  norm_.add_params(params_, name_ + ".ln_1", shares_rows());
  strips_ = {add("attn.c_attn", C, 3 * C, 0.02f, !shared, 3)};
  attention_out_ = add("attn.c_proj", C, C, small, shared, 1);
  second_norm_weight_ = params_.size();
  norm_.add_params(params_, name_ + ".ln_2", shares_rows());
  mlp_in_ = add("mlp.c_fc", C, 4 * C, 0.02f, !shared, 1);
  mlp_out_ = add("mlp.c_proj", 4 * C, C, small, shared, 1);
}

}  // namespace zrt::models
