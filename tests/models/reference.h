// The models in fp64 with plain loops: the oracles for the real blocks. Nothing here is fast and nothing here shares
// code with models/; it depends on the standard library and the config structs only.
//
// GPT-2: pre-norm (Radford et al. 2019, as published on the Hugging Face hub): learned positions, LayerNorm eps 1e-5,
// GELU with tanh, Conv1D weights stored (in, out), head without bias, tied to wte or lm_head.weight (V, C) of its own.
// Llama: as transformers' LlamaForCausalLM: RMSNorm, rotary positions over the halves of a head, shared heads of keys
// and values, SwiGLU, Linear weights stored (out, in).
// BERT: as transformers' BertForMaskedLM (post-LN) and MegatronBertForMaskedLM (pre-LN): token types by the separators,
// attention to both sides, GELU by the error function, LayerNorm eps 1e-12, Linear weights stored (out, in).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/bert/bert.h"
#include "models/model.h"

namespace zrt::test {

using Tensors = std::map<std::string, std::vector<double>>;  // by Hugging Face name

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};
// Every parameter in order of first use.
std::vector<TensorShape> tensors_of(const models::Gpt2Config& config);
std::vector<TensorShape> tensors_of(const models::LlamaConfig& config);
std::vector<TensorShape> tensors_of(const models::BertConfig& config);
Tensors zeros_of(const std::vector<TensorShape>& shapes);
template <class Config>
Tensors zeros_of(const Config& config) {
  return zeros_of(tensors_of(config));
}

struct Batch {
  int64_t B = 0, T = 0;
  std::vector<int32_t> tokens, targets;  // (B, T)
  std::vector<int32_t> positions = {};   // of samples of several documents, which references do not read
};

// Says where dropout acts. `index` counts the elements of (B, T, C), and of (B, heads, T, T) for attention.
struct DropoutSite {
  enum Kind { embedding, attention, attention_out, mlp_out } kind;
  int64_t layer;  // 0 for embedding
};
// The multiplier of one element: 0, or 1 / (1 - p). An empty function means no dropout.
using DropoutMask = std::function<double(DropoutSite site, int64_t index)>;

struct ReferenceResult {
  double loss_sum = 0, loss_mean = 0;       // nats; mean over B * T tokens
  std::vector<double> logits;               // (B, T, V)
  Tensors grads;                            // of scale * loss_sum, and of the router's losses
  double router_balance = 0, router_z = 0;  // of all layers, without their weights; means over rows
  int64_t dropped = 0;                      // picks of experts that were full
  double router_peak = 0;                   // the most that an expert of a layer was picked, by an even share
  std::vector<std::vector<models::ExpertLoad>> loads;  // by layer that has experts, from the first on
  double router_margin = 1e300;  // the least difference of logits that a choice of an expert rests on
  double router_logit = 0;       // the largest one's size
  template <class Experts>
  void take(const Experts& layer) {
    router_balance += layer.balance(), router_z += layer.z();
    for (const bool kept : layer.kept) dropped += kept ? 0 : 1;
    std::vector<models::ExpertLoad>& own = loads.emplace_back(layer.wanted.size());
    for (size_t c = 0; c < layer.expert.size(); ++c) {
      models::ExpertLoad& load = own[static_cast<size_t>(layer.expert[c])];
      ++load.picked, load.dropped += layer.kept[c] ? 0 : 1;
    }
    const double share = static_cast<double>(layer.expert.size()) / static_cast<double>(layer.wanted.size());
    for (const auto wanted : layer.wanted) {
      const double load = static_cast<double>(wanted) / share;
      router_peak = load > router_peak ? load : router_peak;
    }
    router_margin = layer.margin < router_margin ? layer.margin : router_margin;
    router_logit = layer.largest_logit > router_logit ? layer.largest_logit : router_logit;
  }
};

// One forward and backward. `scale` is the gradient of the total with respect to each token's loss; 0 stands for
// 1 / (B * T), the gradient of loss_mean.
ReferenceResult reference(const models::Gpt2Config& config, const Tensors& params, const Batch& batch, double scale = 0,
                          const DropoutMask& mask = {});
ReferenceResult reference(const models::LlamaConfig& config, const Tensors& params, const Batch& batch,
                          double scale = 0);
ReferenceResult reference(const models::BertConfig& config, const Tensors& params, const Batch& batch, double scale = 0,
                          const DropoutMask& mask = {});

}  // namespace zrt::test
