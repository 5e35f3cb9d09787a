#include "tests/models/expert_reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace zrt::test {
namespace {

struct ValueAndSlope {
  double value, slope;
};
ValueAndSlope silu_value(double x) {
  const double sigma = 1 / (1 + std::exp(-x));
  return {x * sigma, sigma + x * sigma * (1 - sigma)};
}
ValueAndSlope gelu_value(double x) {
  const double root = std::sqrt(2 / std::numbers::pi), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)};
}

// y (out) = W (out, in) x, and its gradients.
void multiply(const Vec& w, const double* x, int64_t in, int64_t out, double* y) {
  for (int64_t o = 0; o < out; ++o) y[o] = std::inner_product(x, x + in, w.begin() + o * in, 0.0);
}
void multiply_backward(const Vec& w, const double* x, const double* dy, int64_t in, int64_t out, double* dx, Vec& dw) {
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) dx[i] += w[o * in + i] * dy[o], dw[o * in + i] += dy[o] * x[i];
  }
}

}  // namespace

double ExpertReference::activation(double a, double b) const {
  return gated ? silu_value(a).value * b : gelu_value(a).value;
}

void ExpertReference::add_shared(Vec& y) {
  const int64_t W = experts.shared * experts.ffn;
  shared_first.assign(rows * W, 0), shared_second.assign(rows * W, 0);
  for (int64_t r = 0; r < rows && W > 0; ++r) {
    double *first_row = &shared_first[r * W], *second_row = &shared_second[r * W];
    multiply(w.at(shared_name(gated ? "gate_proj" : "c_fc")), &x[r * C], C, W, first_row);
    if (gated) multiply(w.at(shared_name("up_proj")), &x[r * C], C, W, second_row);
    Vec hidden(W), out(C);
    for (int64_t i = 0; i < W; ++i) hidden[i] = activation(first_row[i], second_row[i]);
    multiply(w.at(shared_name(gated ? "down_proj" : "c_proj")), hidden.data(), W, C, out.data());
    for (int64_t i = 0; i < C; ++i) y[r * C + i] += out[i];
  }
}

void ExpertReference::add_shared_gradients(const Vec& dy, Vec& dx, Tensors& g) const {
  const int64_t W = experts.shared * experts.ffn;
  for (int64_t r = 0; r < rows && W > 0; ++r) {
    Vec hidden(W), d_hidden(W), d_first(W), d_second(W);
    for (int64_t i = 0; i < W; ++i) hidden[i] = activation(shared_first[r * W + i], shared_second[r * W + i]);
    const std::string down = shared_name(gated ? "down_proj" : "c_proj");
    multiply_backward(w.at(down), hidden.data(), &dy[r * C], W, C, d_hidden.data(), g.at(down));
    for (int64_t i = 0; i < W; ++i) {
      const double a = shared_first[r * W + i], b = shared_second[r * W + i];
      d_first[i] = d_hidden[i] * (gated ? silu_value(a).slope * b : gelu_value(a).slope);
      d_second[i] = gated ? d_hidden[i] * silu_value(a).value : 0;
    }
    const std::string in = shared_name(gated ? "gate_proj" : "c_fc"), up = shared_name("up_proj");
    multiply_backward(w.at(in), &x[r * C], d_first.data(), C, W, &dx[r * C], g.at(in));
    if (gated) multiply_backward(w.at(up), &x[r * C], d_second.data(), C, W, &dx[r * C], g.at(up));
  }
}

Vec ExpertReference::forward(const Vec& input) {
  const int64_t E = experts.number, n = E / experts.prototypes, k = experts.top_k, K = choices(), F = experts.ffn;
  x = input;
  probability.resize(rows * E), logs.resize(rows * experts.prototypes);
  expert.resize(rows * K), gate.resize(rows * K), kept.assign(rows * K, true), wanted.assign(E, 0);
  for (int64_t r = 0; r < rows; ++r) {
    Vec logits(E);
    multiply(w.at(prefix + "gate.weight"), &x[r * C], C, E, logits.data());
    for (const double logit : logits) largest_logit = std::max(largest_logit, std::abs(logit));
    for (int64_t g = 0; g < experts.prototypes; ++g) {
      std::vector<int64_t> order(n);
      std::iota(order.begin(), order.end(), g * n);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
      for (int64_t j = 0; j < k && j + 1 < n; ++j) margin = std::min(margin, logits[order[j]] - logits[order[j + 1]]);
      double all = 0, chosen = 0;
      for (int64_t e : order) all += std::exp(logits[e]);
      for (int64_t j = 0; j < k; ++j) chosen += std::exp(logits[order[j]]);
      for (int64_t e : order) probability[r * E + e] = std::exp(logits[e]) / all;
      logs[r * experts.prototypes + g] = std::log(all);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t c = r * K + g * k + j;
        expert[c] = order[j], gate[c] = std::exp(logits[order[j]]) / (experts.normalised ? chosen : all);
        ++wanted[order[j]];
      }
    }
  }
  if (experts.capacity_factor > 0) {
    const double share = experts.capacity_factor * static_cast<double>(K * rows) / static_cast<double>(E);
    const auto most = static_cast<int64_t>(std::ceil(share * (1 - 1e-12)));
    std::vector<int64_t> taken(E);
    for (int64_t j = 0; j < K; ++j) {
      for (int64_t r = 0; r < rows; ++r) kept[r * K + j] = taken[expert[r * K + j]]++ < most;
    }
  }
  first.assign(rows * K * F, 0), second.assign(rows * K * F, 0), made.assign(rows * K * C, 0);
  Vec y(rows * C);
  for (int64_t c = 0; c < rows * K; ++c) {
    if (!kept[c]) continue;
    const double* row = &x[c / K * C];
    multiply(w.at(name(expert[c], gated ? "gate_proj" : "c_fc")), row, C, F, &first[c * F]);
    if (gated) multiply(w.at(name(expert[c], "up_proj")), row, C, F, &second[c * F]);
    Vec hidden(F);
    for (int64_t i = 0; i < F; ++i) hidden[i] = activation(first[c * F + i], second[c * F + i]);
    multiply(w.at(name(expert[c], gated ? "down_proj" : "c_proj")), hidden.data(), F, C, &made[c * C]);
    for (int64_t i = 0; i < C; ++i) y[c / K * C + i] += gate[c] * made[c * C + i];
  }
  add_shared(y);
  return y;
}

double ExpertReference::balance() const {
  const int64_t E = experts.number, n = E / experts.prototypes;
  const auto R = static_cast<double>(rows);
  double sum = 0;
  for (int64_t e = 0; e < E; ++e) {
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r) mean += probability[r * E + e] / R;
    const auto each = static_cast<double>(experts.top_k * experts.prototypes);  // choices
    sum += static_cast<double>(n) / each * static_cast<double>(wanted[e]) / R * mean;
  }
  return sum;
}

double ExpertReference::z() const {
  double sum = 0;
  for (const double log : logs) sum += log * log / static_cast<double>(rows * experts.prototypes);
  return sum;
}

Vec ExpertReference::backward(const Vec& dy, double weight, Tensors& g) const {
  const int64_t E = experts.number, n = E / experts.prototypes, k = experts.top_k, K = choices(), F = experts.ffn;
  const auto R = static_cast<double>(rows);
  Vec dx(rows * C), d_gate(rows * K);
  for (int64_t c = 0; c < rows * K; ++c) {
    if (!kept[c]) continue;
    const double *row = &x[c / K * C], *d = &dy[c / K * C];
    Vec hidden(F), d_made(C), d_hidden(F), d_first(F), d_second(F);
    for (int64_t i = 0; i < C; ++i) d_gate[c] += d[i] * made[c * C + i], d_made[i] = gate[c] * d[i];
    for (int64_t i = 0; i < F; ++i) hidden[i] = activation(first[c * F + i], second[c * F + i]);
    const std::string down = name(expert[c], gated ? "down_proj" : "c_proj");
    multiply_backward(w.at(down), hidden.data(), d_made.data(), F, C, d_hidden.data(), g.at(down));
    for (int64_t i = 0; i < F; ++i) {
      const double a = first[c * F + i], b = second[c * F + i];
      d_first[i] = d_hidden[i] * (gated ? silu_value(a).slope * b : gelu_value(a).slope);
      d_second[i] = gated ? d_hidden[i] * silu_value(a).value : 0;
    }
    const std::string in = name(expert[c], gated ? "gate_proj" : "c_fc"), up = name(expert[c], "up_proj");
    multiply_backward(w.at(in), row, d_first.data(), C, F, &dx[c / K * C], g.at(in));
    if (gated) multiply_backward(w.at(up), row, d_second.data(), C, F, &dx[c / K * C], g.at(up));
  }
  for (int64_t r = 0; r < rows; ++r) {
    Vec d_logits(E);
    for (int64_t group = 0; group < experts.prototypes; ++group) {
      // Gradients of probabilities, then of logits by the softmax over the group; gates that add up to 1 have theirs.
      Vec d_p(E);
      double mean = 0, chosen = 0;
      for (int64_t c = r * K + group * k; c < r * K + group * k + k; ++c) {
        chosen += gate[c] * d_gate[c];
        if (!experts.normalised) d_p[expert[c]] += d_gate[c];
      }
      for (int64_t c = r * K + group * k; c < r * K + group * k + k && experts.normalised; ++c) {
        d_logits[expert[c]] += gate[c] * (d_gate[c] - chosen);
      }
      for (int64_t e = group * n; e < group * n + n; ++e) {
        d_p[e] += weight * experts.aux_loss * static_cast<double>(n) / static_cast<double>(K) *
                  static_cast<double>(wanted[e]) / R;
        mean += probability[r * E + e] * d_p[e];
      }
      for (int64_t e = group * n; e < group * n + n; ++e) {
        const double p = probability[r * E + e];
        d_logits[e] += p * (d_p[e] - mean);
        d_logits[e] += weight * experts.z_loss / static_cast<double>(experts.prototypes) * 2 *
                       logs[r * experts.prototypes + group] * p;
      }
    }
    const std::string router = prefix + "gate.weight";
    multiply_backward(w.at(router), &x[r * C], d_logits.data(), C, E, &dx[r * C], g.at(router));
  }
  add_shared_gradients(dy, dx, g);
  return dx;
}

std::vector<TensorShape> expert_tensors(const models::Experts& experts, const std::string& prefix, bool gated,
                                        int64_t C) {
  std::vector<TensorShape> all{{prefix + "gate.weight", {experts.number, C}}};
  for (int64_t e = 0; e < experts.number; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    if (gated) all.push_back({expert + "gate_proj.weight", {experts.ffn, C}});
    all.push_back({expert + (gated ? "up_proj.weight" : "c_fc.weight"), {experts.ffn, C}});
    all.push_back({expert + (gated ? "down_proj.weight" : "c_proj.weight"), {C, experts.ffn}});
  }
  if (experts.shared == 0) return all;
  const std::string shared = prefix + "shared_experts.";
  const int64_t width = experts.shared * experts.ffn;
  if (gated) all.push_back({shared + "gate_proj.weight", {width, C}});
  all.push_back({shared + (gated ? "up_proj.weight" : "c_fc.weight"), {width, C}});
  all.push_back({shared + (gated ? "down_proj.weight" : "c_proj.weight"), {C, width}});
  return all;
}

}  // namespace zrt::test
