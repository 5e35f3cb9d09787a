// The fp64 references share these: linear layers, attention, the head. Plain loops over rows of doubles.
#pragma once
#include <cmath>

#include "tests/models/reference.h"

namespace zrt::test {

using Vec = std::vector<double>;

// y (rows, out) = x (rows, in) · w (in, out) + b; b may be empty.
Vec linear(const Vec& x, const Vec& w, const Vec& b, int64_t rows, int64_t in, int64_t out);
// Returns dx; adds to dw and db.
Vec linear_backward(const Vec& dy, const Vec& x, const Vec& w, int64_t rows, int64_t in, int64_t out, Vec& dw, Vec& db);

void add(Vec& to, const Vec& from);
void drop(Vec& x, const DropoutMask& mask, DropoutSite site);

struct Sizes {
  int64_t B, T, C, heads, kv_heads, D, rows;  // D: width of a head
  int64_t row() const { return (heads + 2 * kv_heads) * D; }
};

struct LayerNorm {
  Vec y, normalized, inverse;  // inverse: 1 / deviation of each row
};
LayerNorm layer_norm(const Vec& x, const Vec& gain, const Vec& bias, double epsilon, int64_t rows, int64_t C);
// Returns dx; adds to dgain and dbias.
Vec layer_norm_backward(const Vec& dy, const LayerNorm& n, const Vec& gain, int64_t rows, int64_t C, Vec& dgain,
                        Vec& dbias);

// Attention over qkv (B, T, row()), where heads / kv_heads heads of queries share one of keys and values.
struct Attention {
  Sizes s;
  models::AttentionPattern pattern;
  double scalar = 0, cap = 0;  // scores are divided by the root of the one, 0: of D; and capped by the other
  double scale() const { return 1 / std::sqrt(scalar == 0 ? static_cast<double>(s.D) : scalar); }
  double capped(double score) const { return cap == 0 ? score : cap * std::tanh(score / cap); }
  // Softmax of the scores, (B, heads, T, T); zero where the pattern leaves a key out.
  Vec probabilities(const Vec& qkv) const;
  Vec forward(const Vec& qkv, const Vec& dropped) const;
  // Gradient of qkv. `probs` are before and `dropped` after dropout.
  Vec backward(const Vec& dy, const Vec& qkv, const Vec& probs, const Vec& dropped, const DropoutMask& mask,
               DropoutSite site) const;
};

// Logits, losses and the gradient of the normed rows y (rows, C), which is returned; adds that of w (V, C) to dw, and
// with a bias b (V) its own to db. Rows with a negative target have neither loss nor gradient.
Vec head(const Vec& y, const Vec& w, const Batch& batch, int64_t C, double scale, Vec& dw, ReferenceResult& result,
         const Vec& b = {}, Vec* db = nullptr, double cap = 0);

}  // namespace zrt::test
