#include "tests/models/reference_math.h"

#include <algorithm>
#include <cmath>

#include "tests/models/sees.h"

namespace zrt::test {
namespace {

// The keys that a query of a head attends to.
std::vector<int64_t> seen(const Attention& attention, int64_t head, int64_t query) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < attention.s.T; ++key) {
    if (sees(attention.pattern, attention.s.T, head, query, key)) keys.push_back(key);
  }
  return keys;
}

// Offsets of rows in qkv, probabilities and output.
int64_t q_at(const Sizes& s, int64_t b, int64_t h, int64_t t) {
  return (b * s.T + t) * s.row() + h * s.D;
}
int64_t k_at(const Sizes& s, int64_t b, int64_t h, int64_t t) {
  return (b * s.T + t) * s.row() + (s.heads + h / (s.heads / s.kv_heads)) * s.D;
}
int64_t v_at(const Sizes& s, int64_t b, int64_t h, int64_t t) {
  return k_at(s, b, h, t) + s.kv_heads * s.D;
}
int64_t p_at(const Sizes& s, int64_t b, int64_t h, int64_t t) {
  return ((b * s.heads + h) * s.T + t) * s.T;
}
int64_t out_at(const Sizes& s, int64_t b, int64_t h, int64_t t) {
  return ((b * s.T + t) * s.heads + h) * s.D;
}

template <class Body>
void each(const Sizes& s, const Body& body) {
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.T; ++t) body(b, h, t);
}

}  // namespace

Vec linear(const Vec& x, const Vec& w, const Vec& b, int64_t rows, int64_t in, int64_t out) {
  Vec y(rows * out);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out && !b.empty(); ++o) y[r * out + o] = b[o];
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < out; ++o) y[r * out + o] += x[r * in + i] * w[i * out + o];
  }
  return y;
}

Vec linear_backward(const Vec& dy, const Vec& x, const Vec& w, int64_t rows, int64_t in, int64_t out, Vec& dw,
                    Vec& db) {
  Vec dx(rows * in);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out && !db.empty(); ++o) db[o] += dy[r * out + o];
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o) {
        sum += dy[r * out + o] * w[i * out + o];
        dw[i * out + o] += dy[r * out + o] * x[r * in + i];
      }
      dx[r * in + i] = sum;
    }
  }
  return dx;
}

void add(Vec& to, const Vec& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void drop(Vec& x, const DropoutMask& mask, DropoutSite site) {
  if (!mask) return;
  for (size_t i = 0; i < x.size(); ++i) x[i] *= mask(site, static_cast<int64_t>(i));
}

LayerNorm layer_norm(const Vec& x, const Vec& gain, const Vec& bias, double epsilon, int64_t rows, int64_t C) {
  const double width = static_cast<double>(C);
  LayerNorm n{Vec(rows * C), Vec(rows * C), Vec(rows)};
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < C; ++c) mean += x[r * C + c] / width;
    for (int64_t c = 0; c < C; ++c) variance += (x[r * C + c] - mean) * (x[r * C + c] - mean) / width;
    n.inverse[r] = 1 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < C; ++c) {
      n.normalized[r * C + c] = (x[r * C + c] - mean) * n.inverse[r];
      n.y[r * C + c] = n.normalized[r * C + c] * gain[c] + bias[c];
    }
  }
  return n;
}

Vec layer_norm_backward(const Vec& dy, const LayerNorm& n, const Vec& gain, int64_t rows, int64_t C, Vec& dgain,
                        Vec& dbias) {
  const double width = static_cast<double>(C);
  Vec dx(rows * C);
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, slope = 0;  // of the gradient with respect to the normalized row
    for (int64_t c = 0; c < C; ++c) {
      const double d = dy[r * C + c];
      dgain[c] += d * n.normalized[r * C + c];
      dbias[c] += d;
      mean += d * gain[c] / width;
      slope += d * gain[c] * n.normalized[r * C + c] / width;
    }
    for (int64_t c = 0; c < C; ++c)
      dx[r * C + c] = (dy[r * C + c] * gain[c] - mean - n.normalized[r * C + c] * slope) * n.inverse[r];
  }
  return dx;
}

Vec Attention::probabilities(const Vec& qkv) const {
  Vec probs(s.B * s.heads * s.T * s.T);
  each(s, [&](int64_t b, int64_t h, int64_t t) {
    double* row = &probs[p_at(s, b, h, t)];
    double top = -INFINITY, total = 0;
    for (const int64_t u : seen(*this, h, t)) {
      for (int64_t d = 0; d < s.D; ++d) row[u] += qkv[q_at(s, b, h, t) + d] * qkv[k_at(s, b, h, u) + d];
      row[u] = capped(row[u] * scale());
      top = std::max(top, row[u]);
    }
    for (const int64_t u : seen(*this, h, t)) total += row[u] = std::exp(row[u] - top);
    for (const int64_t u : seen(*this, h, t)) row[u] /= total;
  });
  return probs;
}

Vec Attention::forward(const Vec& qkv, const Vec& dropped) const {
  Vec y(s.rows * s.heads * s.D);
  each(s, [&](int64_t b, int64_t h, int64_t t) {
    for (const int64_t u : seen(*this, h, t))
      for (int64_t d = 0; d < s.D; ++d)
        y[out_at(s, b, h, t) + d] += dropped[p_at(s, b, h, t) + u] * qkv[v_at(s, b, h, u) + d];
  });
  return y;
}

Vec Attention::backward(const Vec& dy, const Vec& qkv, const Vec& probs, const Vec& dropped, const DropoutMask& mask,
                        DropoutSite site) const {
  Vec dprobs(probs.size()), dqkv(qkv.size());
  each(s, [&](int64_t b, int64_t h, int64_t t) {
    for (const int64_t u : seen(*this, h, t))
      for (int64_t d = 0; d < s.D; ++d) {
        dprobs[p_at(s, b, h, t) + u] += dy[out_at(s, b, h, t) + d] * qkv[v_at(s, b, h, u) + d];
        dqkv[v_at(s, b, h, u) + d] += dropped[p_at(s, b, h, t) + u] * dy[out_at(s, b, h, t) + d];
      }
  });
  drop(dprobs, mask, site);
  each(s, [&](int64_t b, int64_t h, int64_t t) {
    const int64_t row = p_at(s, b, h, t);
    double mean = 0;
    for (const int64_t u : seen(*this, h, t)) mean += probs[row + u] * dprobs[row + u];
    for (const int64_t u : seen(*this, h, t)) {
      double dscore = probs[row + u] * (dprobs[row + u] - mean) * scale();
      if (cap != 0) {
        double score = 0;
        for (int64_t d = 0; d < s.D; ++d) score += qkv[q_at(s, b, h, t) + d] * qkv[k_at(s, b, h, u) + d];
        dscore *= 1 - std::pow(std::tanh(score * scale() / cap), 2);
      }
      for (int64_t d = 0; d < s.D; ++d) {
        dqkv[q_at(s, b, h, t) + d] += dscore * qkv[k_at(s, b, h, u) + d];
        dqkv[k_at(s, b, h, u) + d] += dscore * qkv[q_at(s, b, h, t) + d];
      }
    }
  });
  return dqkv;
}

Vec head(const Vec& y, const Vec& w, const Batch& batch, int64_t C, double scale, Vec& dw, ReferenceResult& result,
         const Vec& b, Vec* db, double cap) {
  const int64_t rows = batch.B * batch.T, V = static_cast<int64_t>(w.size()) / C;
  Vec d(rows * C), p(V);
  result.logits.resize(rows * V);
  for (int64_t r = 0; r < rows; ++r) {
    double top = -INFINITY, total = 0;
    double* logits = &result.logits[r * V];
    for (int64_t v = 0; v < V; ++v) {
      if (!b.empty()) logits[v] = b[v];
      for (int64_t c = 0; c < C; ++c) logits[v] += y[r * C + c] * w[v * C + c];
      if (cap != 0) logits[v] = cap * std::tanh(logits[v] / cap);
      top = std::max(top, logits[v]);
    }
    if (batch.targets[r] < 0) continue;
    for (int64_t v = 0; v < V; ++v) total += p[v] = std::exp(logits[v] - top);
    result.loss_sum += std::log(total) + top - logits[batch.targets[r]];
    for (int64_t v = 0; v < V; ++v) {
      const double slope = cap == 0 ? 1 : 1 - std::pow(logits[v] / cap, 2);
      const double dlogit = scale * slope * (p[v] / total - (v == batch.targets[r] ? 1 : 0));
      if (db != nullptr) (*db)[v] += dlogit;
      for (int64_t c = 0; c < C; ++c) {
        d[r * C + c] += dlogit * w[v * C + c];
        dw[v * C + c] += dlogit * y[r * C + c];
      }
    }
  }
  result.loss_mean = result.loss_sum / static_cast<double>(rows);
  return d;
}

Tensors zeros_of(const std::vector<TensorShape>& shapes) {
  Tensors tensors;
  for (const TensorShape& t : shapes) {
    int64_t n = 1;
    for (int64_t extent : t.shape) n *= extent;
    tensors[t.name] = Vec(n);
  }
  return tensors;
}

}  // namespace zrt::test
