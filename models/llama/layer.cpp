#include "models/llama/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "models/common/expert_params.h"
#include "models/common/gated_mlp.h"
#include "models/common/layer.h"
#include "models/llama/rotary_frequencies.h"

namespace zrt::models {

std::unique_ptr<Block> make_llama_layer(const LlamaConfig& config, int64_t index) {
  const int64_t C = config.hidden, width = config.head_dim, F = config.ffn;
  const int64_t heads = config.heads * width, kv_heads = config.kv_heads * width;
  const std::string name = fmt::format("layers.{}", index), prefix = "model." + name + ".";
  // Weights of what is added to the residual stream start smaller, so that the stream does not grow with depth.
  const float small = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  constexpr bool shared = true;
  LayerForm form{.sizes = {C, config.sequence, config.vocab, 0, config.degrees, config.adapters},
                 .name = name,
                 .norm = {config.gemma ? NormKind::rms_from_one : NormKind::rms, C, config.rms_norm_eps}};
  const auto add = [&](const char* suffix, int64_t in, int64_t out, float deviation, bool shares, bool bias = false) {
    return form.add_product(prefix + suffix, {.in = in, .out = out, .bias = bias, .shared = shares}, deviation);
  };
  const bool windowed = config.windows.has(index);
  const AttentionPattern pattern = windowed ? config.windows.of(index, config.sequence) : config.sparse.of(index);
  form.attention = Attention(form.sizes, config.heads, config.kv_heads, width, pattern);
  form.attention.scale_width = config.query_scalar, form.attention.cap = config.attention_cap;
  form.first_norm_weight = form.add_norm(prefix + "input_layernorm");
  const Product queries = add("self_attn.q_proj", C, heads, 0.02f, !shared, config.qkv_biases);
  const Product keys = add("self_attn.k_proj", C, kv_heads, 0.02f, !shared, config.qkv_biases);
  const Product values = add("self_attn.v_proj", C, kv_heads, 0.02f, !shared, config.qkv_biases);
  form.attention.strips = side_by_side({queries, keys, values});
  form.attention.output = add("self_attn.o_proj", heads, C, small, shared);
  if (config.gemma) {
    form.norms_behind = LayerForm::NormsBehind{form.add_norm(prefix + "post_attention_layernorm")};
    form.second_norm_weight = form.add_norm(prefix + "pre_feedforward_layernorm");
  } else {
    form.second_norm_weight = form.add_norm(prefix + "post_attention_layernorm");
  }
  if (config.experts.has(index)) {
    form.mlp = add_experts(form, prefix + "mlp.", config.experts, ExpertBank::Kind::swiglu,
                           {"gate_proj", "up_proj", "down_proj"}, small);
  } else {
    const Product gate = add("mlp.gate_proj", C, F, 0.02f, !shared);
    const Product up = add("mlp.up_proj", C, F, 0.02f, !shared);
    const Product down = add("mlp.down_proj", F, C, small, shared);
    form.mlp = std::make_unique<GatedMlp>(gate, up, down, config.gemma ? GatedMlp::Gate::gelu : GatedMlp::Gate::silu);
  }
  if (form.norms_behind) form.norms_behind->mlp = form.add_norm(prefix + "post_feedforward_layernorm");
  const bool own_theta = windowed && config.window_rope_theta > 0;  // which is not stretched
  const RopeScaling scaling = own_theta ? RopeScaling() : config.rope_scaling;
  const double theta = own_theta ? config.window_rope_theta : config.rope_theta;
  HeadTurning turning{.frequencies = rotary_frequencies(width, theta, scaling, config.sequence),
                      .scale = static_cast<float>(rotary_scale(scaling))};
  if (config.head_norms) {
    turning.norms = {form.params.size(), form.params.size() + 1, config.rms_norm_eps, form.norm.kind};
    // All heads have them alike; each rank has the gradients of its own heads.
    for (const char* suffix : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      form.params.push_back(
          {prefix + suffix, {width}, config.gemma ? Init::zeros : Init::ones, 0, {}, config.degrees.tensor > 1});
    }
  }
  form.attention.turning = std::move(turning);
  return std::make_unique<Layer>(std::move(form));
}

}  // namespace zrt::models
