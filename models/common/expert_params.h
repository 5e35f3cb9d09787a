// The parameters of a layer's experts, and the MLP that computes with them.
#pragma once
#include <memory>
#include <string>

#include "models/common/expert_bank.h"
#include "models/common/layer_form.h"
#include "models/experts.h"

namespace zrt::models {

// Names of an expert's products, behind PREFIXexperts.NUMBER. ; of Kind::gelu without a gate.
struct ExpertNames {
  const char *gate, *up, *down;
};

// Adds PREFIXgate.weight of the router, then expert by expert its matrices, then PREFIXshared_experts.MATRIX of all
// shared experts together. `small`: deviation of what is added to the residual stream. Of several ranks that have a
// part of the experts each, the matrices of these alone.
std::unique_ptr<const Mlp> add_experts(LayerForm& form, const std::string& prefix, const Experts& experts,
                                       ExpertBank::Kind kind, const ExpertNames& names, float small);

// Throws ConfigError naming the key of model.experts, or parallel.expert, that contradicts others.
void check_experts(const Experts& experts, int64_t layers, const Degrees& degrees);

}  // namespace zrt::models
