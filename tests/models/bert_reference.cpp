#include <cmath>

#include "tests/models/reference_math.h"

namespace zrt::test {
namespace {

constexpr double bert_epsilon = 1e-12;

// A linear layer with weights (out, in).
struct BertLinear {
  const Tensors& w;
  std::string name;
  int64_t rows, in, out;

  static Vec turned(const Vec& m, int64_t r, int64_t c) {
    Vec t(m.size());
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j) t[j * r + i] = m[i * c + j];
    return t;
  }
  Vec forward(const Vec& x) const {
    return linear(x, turned(w.at(name + ".weight"), out, in), w.at(name + ".bias"), rows, in, out);
  }
  Vec backward(const Vec& dy, const Vec& x, Tensors& g) const {
    Vec dw(in * out);
    Vec dx = linear_backward(dy, x, turned(w.at(name + ".weight"), out, in), rows, in, out, dw, g.at(name + ".bias"));
    add(g.at(name + ".weight"), turned(dw, in, out));
    return dx;
  }
};

struct BertNorm {
  const Tensors& w;
  std::string name;
  int64_t rows, C;

  LayerNorm forward(const Vec& x) const {
    return layer_norm(x, w.at(name + ".weight"), w.at(name + ".bias"), bert_epsilon, rows, C);
  }
  Vec backward(const Vec& dy, const LayerNorm& n, Tensors& g) const {
    return layer_norm_backward(dy, n, w.at(name + ".weight"), rows, C, g.at(name + ".weight"), g.at(name + ".bias"));
  }
};

double below(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
Vec gelu_erf_of(Vec x) {
  for (double& value : x) value *= below(value);
  return x;
}
Vec gelu_erf_gradient(Vec d, const Vec& x) {
  for (size_t i = 0; i < d.size(); ++i) {
    d[i] *= below(x[i]) + x[i] * std::exp(-x[i] * x[i] / 2) / std::sqrt(2 * std::acos(-1.0));
  }
  return d;
}

std::string layer_name(int64_t layer) {
  return "bert.encoder.layer." + std::to_string(layer) + ".";
}

// A transformer layer; forward keeps what backward needs.
struct BertReferenceLayer {
  Sizes s;
  bool pre_norm;
  models::AttentionPattern pattern;
  int64_t number;
  const Tensors& w;
  const DropoutMask& mask;
  LayerNorm norm1, norm2;
  Vec read1, read2, qkv, probs, dropped, attended, hidden, activated;  // read: by attention, by the MLP

  BertLinear linear_of(const char* name, int64_t in, int64_t out) const {
    return {w, layer_name(number) + name, s.rows, in, out};
  }
  BertNorm norm_of(const char* name) const { return {w, layer_name(number) + name, s.rows, s.C}; }
  const char* first_norm() const { return pre_norm ? "attention.ln" : "attention.output.LayerNorm"; }
  const char* second_norm() const { return pre_norm ? "ln" : "output.LayerNorm"; }

  void forward(Vec& x) {
    const int64_t C = s.C;
    if (pre_norm) norm1 = norm_of(first_norm()).forward(x);
    read1 = pre_norm ? norm1.y : x;
    const Vec q = linear_of("attention.self.query", C, C).forward(read1),
              k = linear_of("attention.self.key", C, C).forward(read1),
              v = linear_of("attention.self.value", C, C).forward(read1);
    for (int64_t r = 0; r < s.rows; ++r)
      for (const Vec* part : {&q, &k, &v}) qkv.insert(qkv.end(), part->begin() + r * C, part->begin() + (r + 1) * C);
    dropped = probs = Attention{s, pattern}.probabilities(qkv);
    drop(dropped, mask, {DropoutSite::attention, number});
    attended = Attention{s, pattern}.forward(qkv, dropped);
    Vec y = linear_of("attention.output.dense", C, C).forward(attended);
    drop(y, mask, {DropoutSite::attention_out, number});
    add(x, y);
    if (!pre_norm) x = (norm1 = norm_of(first_norm()).forward(x)).y;
    if (pre_norm) norm2 = norm_of(second_norm()).forward(x);
    read2 = pre_norm ? norm2.y : x;
    hidden = linear_of("intermediate.dense", C, 4 * C).forward(read2);
    activated = gelu_erf_of(hidden);
    y = linear_of("output.dense", 4 * C, C).forward(activated);
    drop(y, mask, {DropoutSite::mlp_out, number});
    add(x, y);
    if (!pre_norm) x = (norm2 = norm_of(second_norm()).forward(x)).y;
  }

  void backward(Vec& dx, Tensors& g) const {
    const int64_t C = s.C;
    if (!pre_norm) dx = norm_of(second_norm()).backward(dx, norm2, g);
    Vec d = dx;
    drop(d, mask, {DropoutSite::mlp_out, number});
    d = linear_of("output.dense", 4 * C, C).backward(d, activated, g);
    d = linear_of("intermediate.dense", C, 4 * C).backward(gelu_erf_gradient(d, hidden), read2, g);
    add(dx, pre_norm ? norm_of(second_norm()).backward(d, norm2, g) : d);
    if (!pre_norm) dx = norm_of(first_norm()).backward(dx, norm1, g);
    d = dx;
    drop(d, mask, {DropoutSite::attention_out, number});
    d = linear_of("attention.output.dense", C, C).backward(d, attended, g);
    const Vec d_qkv = Attention{s, pattern}.backward(d, qkv, probs, dropped, mask, {DropoutSite::attention, number});
    d.assign(d.size(), 0);
    const char* names[] = {"attention.self.query", "attention.self.key", "attention.self.value"};
    for (int64_t part = 0; part < 3; ++part) {
      Vec own;
      for (int64_t r = 0; r < s.rows; ++r) {
        const auto row = d_qkv.begin() + (3 * r + part) * C;
        own.insert(own.end(), row, row + C);
      }
      add(d, linear_of(names[part], C, C).backward(own, read1, g));
    }
    add(dx, pre_norm ? norm_of(first_norm()).backward(d, norm1, g) : d);
  }
};

}  // namespace

std::vector<TensorShape> tensors_of(const models::BertConfig& config) {
  const int64_t C = config.hidden, V = config.vocab;
  std::vector<TensorShape> list;
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) {
    list.push_back({name + ".weight", {out, in}});
    list.push_back({name + ".bias", {out}});
  };
  const auto norm = [&](const std::string& name) {
    list.push_back({name + ".weight", {C}});
    list.push_back({name + ".bias", {C}});
  };
  list.push_back({"bert.embeddings.word_embeddings.weight", {V, C}});
  list.push_back({"bert.embeddings.position_embeddings.weight", {config.sequence, C}});
  list.push_back({"bert.embeddings.token_type_embeddings.weight", {2, C}});
  if (!config.pre_norm) norm("bert.embeddings.LayerNorm");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string layer = layer_name(l);
    for (const char* name : {"attention.self.query", "attention.self.key", "attention.self.value"})
      linear(layer + name, C, C);
    linear(layer + "attention.output.dense", C, C);
    norm(layer + (config.pre_norm ? "attention.ln" : "attention.output.LayerNorm"));
    linear(layer + "intermediate.dense", 4 * C, C);
    linear(layer + "output.dense", C, 4 * C);
    norm(layer + (config.pre_norm ? "ln" : "output.LayerNorm"));
  }
  if (config.pre_norm) norm("bert.encoder.ln");
  linear("cls.predictions.transform.dense", C, C);
  norm("cls.predictions.transform.LayerNorm");
  if (config.tied) list.push_back({"cls.predictions.bias", {V}});
  if (!config.tied) linear("cls.predictions.decoder", V, C);
  if (config.masking.sentence_order) {
    linear("bert.pooler.dense", C, C);
    linear("cls.seq_relationship", 2, C);
  }
  return list;
}

ReferenceResult reference(const models::BertConfig& config, const Tensors& params, const Batch& batch, double scale,
                          const DropoutMask& mask) {
  const int64_t C = config.hidden, T = batch.T;
  const Sizes s{batch.B, T, C, config.heads, config.heads, C / config.heads, batch.B * T};
  if (scale == 0) scale = 1.0 / static_cast<double>(s.rows);
  ReferenceResult result;
  result.grads = zeros_of(config);
  Tensors& g = result.grads;

  const std::string prefix = "bert.embeddings.", tokens = prefix + "word_embeddings.weight",
                    positions = prefix + "position_embeddings.weight", types = prefix + "token_type_embeddings.weight";
  std::vector<int64_t> type(s.rows);
  for (int64_t r = 0; r < s.rows; ++r)
    if (r % T > 0) type[r] = type[r - 1] != 0 || batch.tokens[r - 1] == config.masking.separator;
  Vec x(s.rows * C);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < C; ++c)
      x[r * C + c] = params.at(tokens)[batch.tokens[r] * C + c] + params.at(positions)[(r % T) * C + c] +
                     params.at(types)[type[r] * C + c];
  const BertNorm of_embedding{params, prefix + "LayerNorm", s.rows, C};
  LayerNorm embedded;
  if (!config.pre_norm) x = (embedded = of_embedding.forward(x)).y;
  drop(x, mask, {DropoutSite::embedding, 0});
  std::vector<BertReferenceLayer> layers;
  for (int64_t l = 0; l < config.layers; ++l)
    layers.push_back(
        {s, config.pre_norm, config.sparse.of(l), l, params, mask, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}});
  for (BertReferenceLayer& layer : layers) layer.forward(x);

  const BertNorm last{params, "bert.encoder.ln", s.rows, C},
      of_head{params, "cls.predictions.transform.LayerNorm", s.rows, C};
  LayerNorm normed;
  if (config.pre_norm) x = (normed = last.forward(x)).y;
  const BertLinear dense{params, "cls.predictions.transform.dense", s.rows, C, C};
  const Vec hidden = dense.forward(x);
  const LayerNorm transformed = of_head.forward(gelu_erf_of(hidden));
  const std::string output = config.tied ? tokens : "cls.predictions.decoder.weight",
                    bias = config.tied ? "cls.predictions.bias" : "cls.predictions.decoder.bias";
  // The order of two runs of text, of the rows of first tokens.
  Vec d_first(x.size());
  if (config.masking.sentence_order) {
    const std::string pooler = "bert.pooler.dense", classifier = "cls.seq_relationship";
    const double weight = static_cast<double>(config.masking.predicted(T));
    Vec first;
    for (int64_t b = 0; b < batch.B; ++b) first.insert(first.end(), x.begin() + b * T * C, x.begin() + (b * T + 1) * C);
    const BertLinear pool{params, pooler, batch.B, C, C}, tell{params, classifier, batch.B, C, 2};
    Vec pooled = pool.forward(first);
    for (double& value : pooled) value = std::tanh(value);
    Vec logits = tell.forward(pooled);
    for (int64_t b = 0; b < batch.B; ++b) {
      const int64_t label = models::in_order - batch.targets[b * T];
      const double sum = std::exp(logits[2 * b]) + std::exp(logits[2 * b + 1]);
      result.loss_sum += weight * (std::log(sum) - logits[2 * b + label]);
      for (int64_t v = 0; v < 2; ++v)
        logits[2 * b + v] = scale * weight * (std::exp(logits[2 * b + v]) / sum - (v == label ? 1 : 0));
    }
    Vec d_pooled = tell.backward(logits, pooled, g);
    for (size_t i = 0; i < pooled.size(); ++i) d_pooled[i] *= 1 - pooled[i] * pooled[i];
    const Vec d = pool.backward(d_pooled, first, g);
    for (int64_t b = 0; b < batch.B; ++b)
      for (int64_t c = 0; c < C; ++c) d_first[b * T * C + c] = d[b * C + c];
  }
  Vec d = head(transformed.y, params.at(output), batch, C, scale, g.at(output), result, params.at(bias), &g.at(bias));
  d = dense.backward(gelu_erf_gradient(of_head.backward(d, transformed, g), hidden), x, g);
  add(d, d_first);
  if (config.pre_norm) d = last.backward(d, normed, g);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) layer->backward(d, g);
  drop(d, mask, {DropoutSite::embedding, 0});
  if (!config.pre_norm) d = of_embedding.backward(d, embedded, g);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < C; ++c) {
      g.at(tokens)[batch.tokens[r] * C + c] += d[r * C + c];
      g.at(positions)[(r % T) * C + c] += d[r * C + c];
      g.at(types)[type[r] * C + c] += d[r * C + c];
    }
  return result;
}

}  // namespace zrt::test
