#include <cmath>
#include <optional>

#include "tests/models/expert_reference.h"

namespace zrt::test {
namespace {

const double gelu_slope = std::sqrt(2 / std::acos(-1.0));

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(gelu_slope * (x + 0.044715 * x * x * x)));
}

double gelu_derivative(double x) {
  const double t = std::tanh(gelu_slope * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_slope * (1 + 3 * 0.044715 * x * x);
}

// A transformer layer; forward keeps what backward needs.
struct Layer {
  Sizes s;
  int64_t number;
  const Tensors& w;
  const DropoutMask& mask;
  const models::Gpt2Config& config;
  LayerNorm norm1 = {}, norm2 = {};
  Vec qkv = {}, probs = {}, dropped = {}, attended = {}, hidden = {}, activated = {};
  std::optional<ExpertReference> experts = {};
  Attention heads() const { return {s, config.sparse.of(number)}; }

  std::string key(const char* name) const { return "h." + std::to_string(number) + "." + name; }
  const Vec& at(const char* name) const { return w.at(key(name)); }

  void forward(Vec& x) {
    const Attention attention = heads();
    norm1 = layer_norm(x, at("ln_1.weight"), at("ln_1.bias"), 1e-5, s.rows, s.C);
    qkv = linear(norm1.y, at("attn.c_attn.weight"), at("attn.c_attn.bias"), s.rows, s.C, 3 * s.C);
    dropped = probs = attention.probabilities(qkv);
    drop(dropped, mask, {DropoutSite::attention, number});
    attended = attention.forward(qkv, dropped);
    Vec y = linear(attended, at("attn.c_proj.weight"), at("attn.c_proj.bias"), s.rows, s.C, s.C);
    drop(y, mask, {DropoutSite::attention_out, number});
    add(x, y);
    norm2 = layer_norm(x, at("ln_2.weight"), at("ln_2.bias"), 1e-5, s.rows, s.C);
    if (config.experts.has(number)) {
      experts.emplace(ExpertReference{config.experts, w, key("mlp."), false, s.rows, s.C});
      y = experts->forward(norm2.y);
      drop(y, mask, {DropoutSite::mlp_out, number});
      return add(x, y);
    }
    hidden = linear(norm2.y, at("mlp.c_fc.weight"), at("mlp.c_fc.bias"), s.rows, s.C, 4 * s.C);
    activated = hidden;
    for (double& value : activated) value = gelu(value);
    y = linear(activated, at("mlp.c_proj.weight"), at("mlp.c_proj.bias"), s.rows, 4 * s.C, s.C);
    drop(y, mask, {DropoutSite::mlp_out, number});
    add(x, y);
  }

  Vec backward_mlp(Vec d, Tensors& g) const {
    const auto grad = [&](const char* name) -> Vec& { return g.at(key(name)); };
    d = linear_backward(d, activated, at("mlp.c_proj.weight"), s.rows, 4 * s.C, s.C, grad("mlp.c_proj.weight"),
                        grad("mlp.c_proj.bias"));
    for (size_t i = 0; i < d.size(); ++i) d[i] *= gelu_derivative(hidden[i]);
    return linear_backward(d, norm2.y, at("mlp.c_fc.weight"), s.rows, s.C, 4 * s.C, grad("mlp.c_fc.weight"),
                           grad("mlp.c_fc.bias"));
  }

  // `scale`: what a row's own loss is multiplied by.
  void backward(Vec& dx, double scale, Tensors& g) const {
    const auto grad = [&](const char* name) -> Vec& { return g.at(key(name)); };
    Vec d = dx;
    drop(d, mask, {DropoutSite::mlp_out, number});
    d = experts ? experts->backward(d, scale, g) : backward_mlp(d, g);
    add(dx, layer_norm_backward(d, norm2, at("ln_2.weight"), s.rows, s.C, grad("ln_2.weight"), grad("ln_2.bias")));
    d = dx;
    drop(d, mask, {DropoutSite::attention_out, number});
    d = linear_backward(d, attended, at("attn.c_proj.weight"), s.rows, s.C, s.C, grad("attn.c_proj.weight"),
                        grad("attn.c_proj.bias"));
    d = heads().backward(d, qkv, probs, dropped, mask, {DropoutSite::attention, number});
    d = linear_backward(d, norm1.y, at("attn.c_attn.weight"), s.rows, s.C, 3 * s.C, grad("attn.c_attn.weight"),
                        grad("attn.c_attn.bias"));
    add(dx, layer_norm_backward(d, norm1, at("ln_1.weight"), s.rows, s.C, grad("ln_1.weight"), grad("ln_1.bias")));
  }
};

}  // namespace

std::vector<TensorShape> tensors_of(const models::Gpt2Config& config) {
  const int64_t C = config.hidden, V = config.vocab;
  std::vector<TensorShape> list{{"wte.weight", {V, C}}, {"wpe.weight", {config.sequence, C}}};
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    list.push_back({h + "ln_1.weight", {C}});
    list.push_back({h + "ln_1.bias", {C}});
    list.push_back({h + "attn.c_attn.weight", {C, 3 * C}});
    list.push_back({h + "attn.c_attn.bias", {3 * C}});
    list.push_back({h + "attn.c_proj.weight", {C, C}});
    list.push_back({h + "attn.c_proj.bias", {C}});
    list.push_back({h + "ln_2.weight", {C}});
    list.push_back({h + "ln_2.bias", {C}});
    if (config.experts.has(l)) {
      for (const TensorShape& tensor : expert_tensors(config.experts, h + "mlp.", false, C)) list.push_back(tensor);
      continue;
    }
    list.push_back({h + "mlp.c_fc.weight", {C, 4 * C}});
    list.push_back({h + "mlp.c_fc.bias", {4 * C}});
    list.push_back({h + "mlp.c_proj.weight", {4 * C, C}});
    list.push_back({h + "mlp.c_proj.bias", {C}});
  }
  list.push_back({"ln_f.weight", {C}});
  list.push_back({"ln_f.bias", {C}});
  if (!config.tied) list.push_back({"lm_head.weight", {V, C}});
  return list;
}

ReferenceResult reference(const models::Gpt2Config& config, const Tensors& params, const Batch& batch, double scale,
                          const DropoutMask& mask) {
  const int64_t C = config.hidden;
  const Sizes s{batch.B, batch.T, C, config.heads, config.heads, C / config.heads, batch.B * batch.T};
  if (scale == 0) scale = 1.0 / static_cast<double>(s.rows);
  ReferenceResult result;
  result.grads = zeros_of(config);
  Tensors& g = result.grads;

  const Vec &wte = params.at("wte.weight"), &wpe = params.at("wpe.weight");
  Vec x(s.rows * C);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < C; ++c) x[r * C + c] = wte[batch.tokens[r] * C + c] + wpe[(r % s.T) * C + c];
  drop(x, mask, {DropoutSite::embedding, 0});
  std::vector<Layer> layers;
  for (int64_t l = 0; l < config.layers; ++l) layers.push_back({s, l, params, mask, config});
  for (Layer& layer : layers) {
    layer.forward(x);
    if (layer.experts) result.take(*layer.experts);
  }
  const LayerNorm final_norm = layer_norm(x, params.at("ln_f.weight"), params.at("ln_f.bias"), 1e-5, s.rows, C);

  const char* output = config.tied ? "wte.weight" : "lm_head.weight";
  Vec d = head(final_norm.y, params.at(output), batch, C, scale, g.at(output), result);
  d = layer_norm_backward(d, final_norm, params.at("ln_f.weight"), s.rows, C, g.at("ln_f.weight"), g.at("ln_f.bias"));
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) layer->backward(d, scale, g);
  drop(d, mask, {DropoutSite::embedding, 0});
  Vec &dwte = g.at("wte.weight"), &dwpe = g.at("wpe.weight");
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < C; ++c) {
      dwte[batch.tokens[r] * C + c] += d[r * C + c];
      dwpe[(r % s.T) * C + c] += d[r * C + c];
    }
  return result;
}

}  // namespace zrt::test
