// A layer of experts in fp64: routing, capacity, gates, shared experts, and the router's own losses. Plain loops over
// rows.
#pragma once
#include "tests/models/reference_math.h"

namespace zrt::test {

struct ExpertReference {
  const models::Experts& experts;
  const Tensors& w;
  std::string prefix;  // "model.layers.0.mlp."
  bool gated;          // SwiGLU by gate_proj, up_proj, down_proj; else GELU between c_fc and c_proj
  int64_t rows, C;

  // Each choice has an entry, in the order of a row's logits, group by group.
  std::vector<int64_t> expert = {};
  std::vector<bool> kept = {};
  std::vector<int64_t> wanted = {};  // by expert
  Vec x = {}, probability = {}, logs = {}, gate = {}, first = {}, second = {},
      made = {};                              // first, second, made: (choices, ffn), (…), (choices, C)
  Vec shared_first = {}, shared_second = {};  // (rows, shared · ffn) each
  // The least difference of two logits that decides which experts a row has, and in which order.
  double margin = 1e300;
  double largest_logit = 0;

  Vec forward(const Vec& input);
  // The router's losses, balance and z, without their weights; means over rows.
  double balance() const;
  double z() const;
  // Returns the gradient of the input; `weight` is that of a row's own loss.
  Vec backward(const Vec& dy, double weight, Tensors& g) const;

  std::string name(int64_t e, const char* matrix) const {
    return prefix + "experts." + std::to_string(e) + "." + matrix + ".weight";
  }
  int64_t choices() const { return experts.choices(); }

 private:
  std::string shared_name(const char* matrix) const { return prefix + "shared_experts." + matrix + ".weight"; }
  // Returns what the nonlinearity makes of its inputs.
  double activation(double first, double second) const;
  void add_shared(Vec& y);
  void add_shared_gradients(const Vec& dy, Vec& dx, Tensors& g) const;
};

std::vector<TensorShape> expert_tensors(const models::Experts& experts, const std::string& prefix, bool gated,
                                        int64_t C);

}  // namespace zrt::test
