#include <cmath>
#include <numbers>
#include <optional>

#include "tests/models/expert_reference.h"

namespace zrt::test {
namespace {

// (rows, columns) to (columns, rows).
Vec turned(const Vec& w, int64_t rows, int64_t columns) {
  Vec t(w.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) t[c * rows + r] = w[r * columns + c];
  return t;
}

struct RmsNorm {
  Vec y, normalized, inverse;  // inverse: 1 / root mean square of each row
};

RmsNorm rms_norm(const Vec& x, const Vec& gain, double epsilon, int64_t rows, int64_t C) {
  RmsNorm n{Vec(rows * C), Vec(rows * C), Vec(rows)};
  for (int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (int64_t c = 0; c < C; ++c) square += x[r * C + c] * x[r * C + c] / static_cast<double>(C);
    n.inverse[r] = 1 / std::sqrt(square + epsilon);
    for (int64_t c = 0; c < C; ++c) {
      n.normalized[r * C + c] = x[r * C + c] * n.inverse[r];
      n.y[r * C + c] = n.normalized[r * C + c] * gain[c];
    }
  }
  return n;
}

Vec rms_norm_backward(const Vec& dy, const RmsNorm& n, const Vec& gain, int64_t rows, int64_t C, Vec& dgain) {
  Vec dx(rows * C);
  for (int64_t r = 0; r < rows; ++r) {
    double slope = 0;
    for (int64_t c = 0; c < C; ++c) {
      dgain[c] += dy[r * C + c] * n.normalized[r * C + c];
      slope += dy[r * C + c] * gain[c] * n.normalized[r * C + c] / static_cast<double>(C);
    }
    for (int64_t c = 0; c < C; ++c)
      dx[r * C + c] = (dy[r * C + c] * gain[c] - n.normalized[r * C + c] * slope) * n.inverse[r];
  }
  return dx;
}

// Turns the queries and keys of every row by their position; sign -1 turns back. Stretched positions of the tests leave
// all frequencies as they are, and have a factor of attention.
void rotate(Vec& qkv, const Sizes& s, double theta, double scale, double sign) {
  const int64_t half = s.D / 2;
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t h = 0; h < s.heads + s.kv_heads; ++h)
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(s.D));
        const double angle = sign * static_cast<double>(r % s.T) * frequency;
        double &a = qkv[r * s.row() + h * s.D + i], &b = qkv[r * s.row() + h * s.D + half + i];
        const double first = scale * (a * std::cos(angle) - b * std::sin(angle));
        b = scale * (b * std::cos(angle) + a * std::sin(angle));
        a = first;
      }
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Holds the gate's output and its slope: of SiLU, or of GELU's tanh form.
struct Gate {
  double value, slope;
};
Gate gate_of(double x, bool gelu) {
  if (!gelu) {
    const double sigma = sigmoid(x);
    return {x * sigma, sigma + x * sigma * (1 - sigma)};
  }
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x), t = std::tanh(inner);
  const double d_inner = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * d_inner};
}

// Returns the factors that a norm's weights stand for.
Vec gains(const models::LlamaConfig& config, const Vec& weights) {
  Vec all = weights;
  for (double& gain : all) gain += config.gemma ? 1 : 0;
  return all;
}

// A transformer layer; forward keeps what backward needs.
struct LlamaReferenceLayer {
  Sizes s;
  const models::LlamaConfig& config;
  int64_t number;
  const Tensors& w;
  RmsNorm norm1, norm2, q_norm, k_norm, behind1, behind2;
  Vec qkv, probs, attended, gate, up, hidden;
  std::optional<ExpertReference> experts = {};

  std::string key(const char* name) const { return "model.layers." + std::to_string(number) + "." + name; }
  const Vec& at(const char* name) const { return w.at(key(name)); }
  Vec gain(const char* name) const { return gains(config, at(name)); }
  RmsNorm norm(const Vec& x, const char* name, int64_t rows, int64_t width) const {
    return rms_norm(x, gain(name), static_cast<double>(config.rms_norm_eps), rows, width);
  }
  bool windowed() const {
    const models::WindowLayers& windows = config.windows;
    const bool last_of_group = windows.period > 0 && (number + 1) % windows.period == 0;
    return windows.window > 0 && number >= windows.first && !last_of_group;
  }
  bool own_theta() const { return windowed() && config.window_rope_theta > 0; }
  double theta() const { return own_theta() ? config.window_rope_theta : config.rope_theta; }
  double angle_scale() const { return own_theta() ? 1 : config.rope_scaling.attention_factor.value_or(1); }
  Attention heads() const {
    models::AttentionPattern pattern = config.sparse.of(number);
    if (windowed())
      pattern.kind = models::AttentionPattern::Kind::sliding, pattern.window = static_cast<int>(config.windows.window);
    return {s, pattern, config.query_scalar, static_cast<double>(config.attention_cap)};
  }
  const char* before_mlp() const {
    return config.gemma ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
  }
  // Adds to the stream; with norms behind, their output.
  void add_to(Vec& x, const Vec& made, RmsNorm& behind, const char* name) const {
    if (!config.gemma) return add(x, made);
    behind = norm(made, name, s.rows, s.C);
    add(x, behind.y);
  }
  Vec behind_backward(const Vec& dx, const RmsNorm& behind, const char* name, Tensors& g) const {
    return config.gemma ? rms_norm_backward(dx, behind, gain(name), s.rows, s.C, g.at(key(name))) : dx;
  }

  // The name of a product's bias; "": it has none.
  std::string bias_of(const std::string& weight) const {
    const bool has = config.qkv_biases && weight.starts_with("self_attn.") && !weight.starts_with("self_attn.o_proj");
    return has ? key(weight.substr(0, weight.rfind('.')).c_str()) + ".bias" : "";
  }
  // The weights (out, in) and a buffer for their gradient are turned to what linear() takes.
  Vec project(const Vec& x, const char* name, int64_t in, int64_t out) const {
    const std::string bias = bias_of(name);
    return linear(x, turned(at(name), out, in), bias.empty() ? Vec() : w.at(bias), s.rows, in, out);
  }
  Vec project_backward(const Vec& dy, const Vec& x, const char* name, int64_t in, int64_t out, Tensors& g) const {
    const std::string bias = bias_of(name);
    Vec dw(in * out), db(bias.empty() ? 0 : out);
    Vec dx = linear_backward(dy, x, turned(at(name), out, in), s.rows, in, out, dw, db);
    add(g.at(key(name)), turned(dw, in, out));
    if (!bias.empty()) add(g.at(bias), db);
    return dx;
  }
  // Columns of qkv from `begin` on.
  Vec columns(const Vec& all, int64_t begin, int64_t count) const {
    Vec part;
    for (int64_t r = 0; r < s.rows; ++r)
      part.insert(part.end(), all.begin() + r * s.row() + begin, all.begin() + r * s.row() + begin + count);
    return part;
  }

  void forward(Vec& x) {
    const int64_t A = s.heads * s.D, kv = s.kv_heads * s.D;
    norm1 = norm(x, "input_layernorm.weight", s.rows, s.C);
    Vec q = project(norm1.y, "self_attn.q_proj.weight", s.C, A);
    Vec k = project(norm1.y, "self_attn.k_proj.weight", s.C, kv);
    const Vec v = project(norm1.y, "self_attn.v_proj.weight", s.C, kv);
    if (config.head_norms) {
      q_norm = norm(q, "self_attn.q_norm.weight", s.rows * s.heads, s.D);
      k_norm = norm(k, "self_attn.k_norm.weight", s.rows * s.kv_heads, s.D);
      q = q_norm.y, k = k_norm.y;
    }
    for (int64_t r = 0; r < s.rows; ++r) {
      qkv.insert(qkv.end(), q.begin() + r * A, q.begin() + (r + 1) * A);
      qkv.insert(qkv.end(), k.begin() + r * kv, k.begin() + (r + 1) * kv);
      qkv.insert(qkv.end(), v.begin() + r * kv, v.begin() + (r + 1) * kv);
    }
    rotate(qkv, s, theta(), angle_scale(), 1);
    probs = heads().probabilities(qkv);
    attended = heads().forward(qkv, probs);
    add_to(x, project(attended, "self_attn.o_proj.weight", A, s.C), behind1, "post_attention_layernorm.weight");
    norm2 = norm(x, before_mlp(), s.rows, s.C);
    if (config.experts.has(number)) {
      experts.emplace(ExpertReference{config.experts, w, key("mlp."), true, s.rows, s.C});
      return add(x, experts->forward(norm2.y));
    }
    gate = project(norm2.y, "mlp.gate_proj.weight", s.C, config.ffn);
    up = project(norm2.y, "mlp.up_proj.weight", s.C, config.ffn);
    hidden = up;
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= gate_of(gate[i], config.gemma).value;
    add_to(x, project(hidden, "mlp.down_proj.weight", config.ffn, s.C), behind2, "post_feedforward_layernorm.weight");
  }

  Vec backward_mlp(const Vec& d_projected, Tensors& g) const {
    const Vec d_hidden = project_backward(d_projected, hidden, "mlp.down_proj.weight", config.ffn, s.C, g);
    Vec d_gate = d_hidden, d_up = d_hidden;
    for (size_t i = 0; i < d_hidden.size(); ++i) {
      const Gate at_gate = gate_of(gate[i], config.gemma);
      d_gate[i] *= up[i] * at_gate.slope;
      d_up[i] *= at_gate.value;
    }
    Vec d = project_backward(d_gate, norm2.y, "mlp.gate_proj.weight", s.C, config.ffn, g);
    add(d, project_backward(d_up, norm2.y, "mlp.up_proj.weight", s.C, config.ffn, g));
    return d;
  }

  // `scale`: what a row's own loss is multiplied by.
  void backward(Vec& dx, double scale, Tensors& g) const {
    const int64_t A = s.heads * s.D, kv = s.kv_heads * s.D;
    const Vec d_projected = behind_backward(dx, behind2, "post_feedforward_layernorm.weight", g);
    Vec d = experts ? experts->backward(d_projected, scale, g) : backward_mlp(d_projected, g);
    add(dx, rms_norm_backward(d, norm2, gain(before_mlp()), s.rows, s.C, g.at(key(before_mlp()))));
    d = behind_backward(dx, behind1, "post_attention_layernorm.weight", g);
    d = project_backward(d, attended, "self_attn.o_proj.weight", A, s.C, g);
    Vec d_qkv = heads().backward(d, qkv, probs, probs, {}, {DropoutSite::attention, number});
    rotate(d_qkv, s, theta(), angle_scale(), -1);
    Vec d_q = columns(d_qkv, 0, A), d_k = columns(d_qkv, A, kv);
    if (config.head_norms) {
      const char *q_gain = "self_attn.q_norm.weight", *k_gain = "self_attn.k_norm.weight";
      d_q = rms_norm_backward(d_q, q_norm, gain(q_gain), s.rows * s.heads, s.D, g.at(key(q_gain)));
      d_k = rms_norm_backward(d_k, k_norm, gain(k_gain), s.rows * s.kv_heads, s.D, g.at(key(k_gain)));
    }
    d = project_backward(d_q, norm1.y, "self_attn.q_proj.weight", s.C, A, g);
    add(d, project_backward(d_k, norm1.y, "self_attn.k_proj.weight", s.C, kv, g));
    add(d, project_backward(columns(d_qkv, A + kv, kv), norm1.y, "self_attn.v_proj.weight", s.C, kv, g));
    add(dx,
        rms_norm_backward(d, norm1, gain("input_layernorm.weight"), s.rows, s.C, g.at(key("input_layernorm.weight"))));
  }
};

int64_t head_dim(const models::LlamaConfig& config) {
  return config.head_dim > 0 ? config.head_dim : config.hidden / config.heads;
}

}  // namespace

std::vector<TensorShape> tensors_of(const models::LlamaConfig& config) {
  const int64_t C = config.hidden, V = config.vocab, F = config.ffn, D = head_dim(config);
  const int64_t A = D * config.heads, kv = D * config.kv_heads;
  std::vector<TensorShape> list{{"model.embed_tokens.weight", {V, C}}};
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    list.push_back({layer + "input_layernorm.weight", {C}});
    for (const auto& [product, rows] : {std::pair{"q_proj", A}, {"k_proj", kv}, {"v_proj", kv}}) {
      list.push_back({layer + "self_attn." + product + ".weight", {rows, C}});
      if (config.qkv_biases) list.push_back({layer + "self_attn." + product + ".bias", {rows}});
    }
    list.push_back({layer + "self_attn.o_proj.weight", {C, A}});
    list.push_back({layer + "post_attention_layernorm.weight", {C}});
    if (config.gemma) list.push_back({layer + "pre_feedforward_layernorm.weight", {C}});
    if (config.experts.has(l)) {
      for (const TensorShape& tensor : expert_tensors(config.experts, layer + "mlp.", true, C)) list.push_back(tensor);
    } else {
      list.push_back({layer + "mlp.gate_proj.weight", {F, C}});
      list.push_back({layer + "mlp.up_proj.weight", {F, C}});
      list.push_back({layer + "mlp.down_proj.weight", {C, F}});
    }
    if (config.gemma) list.push_back({layer + "post_feedforward_layernorm.weight", {C}});
    if (!config.head_norms) continue;
    list.push_back({layer + "self_attn.q_norm.weight", {D}});
    list.push_back({layer + "self_attn.k_norm.weight", {D}});
  }
  list.push_back({"model.norm.weight", {C}});
  if (!config.tied) list.push_back({"lm_head.weight", {V, C}});
  return list;
}

ReferenceResult reference(const models::LlamaConfig& config, const Tensors& params, const Batch& batch, double scale) {
  const int64_t C = config.hidden;
  const Sizes s{batch.B, batch.T, C, config.heads, config.kv_heads, head_dim(config), batch.B * batch.T};
  if (scale == 0) scale = 1.0 / static_cast<double>(s.rows);
  ReferenceResult result;
  result.grads = zeros_of(config);
  Tensors& g = result.grads;

  const char* embedding = "model.embed_tokens.weight";
  const double embedding_scale = config.gemma ? std::sqrt(static_cast<double>(C)) : 1;
  Vec x;
  for (int64_t r = 0; r < s.rows; ++r) {
    const auto row = params.at(embedding).begin() + batch.tokens[r] * C;
    for (int64_t c = 0; c < C; ++c) x.push_back(row[c] * embedding_scale);
  }
  std::vector<LlamaReferenceLayer> layers;
  for (int64_t l = 0; l < config.layers; ++l)
    layers.push_back({s, config, l, params, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}});
  for (LlamaReferenceLayer& layer : layers) {
    layer.forward(x);
    if (layer.experts) result.take(*layer.experts);
  }
  const Vec gain = gains(config, params.at("model.norm.weight"));
  const RmsNorm norm = rms_norm(x, gain, static_cast<double>(config.rms_norm_eps), s.rows, C);

  const char* output = config.tied ? embedding : "lm_head.weight";
  Vec d = head(norm.y, params.at(output), batch, C, scale, g.at(output), result, {}, nullptr,
               static_cast<double>(config.logit_cap));
  d = rms_norm_backward(d, norm, gain, s.rows, C, g.at("model.norm.weight"));
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) layer->backward(d, scale, g);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < C; ++c) g.at(embedding)[batch.tokens[r] * C + c] += d[r * C + c] * embedding_scale;
  return result;
}

}  // namespace zrt::test
