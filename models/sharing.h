// Layers that share their parameters: the first half of Pseudo-to-Real (Lin et al., "M6-10T", 2021; Yang et al.,
// "Speeding up Deep Model Training by Sharing Weights and Then Unsharing", 2021). Consecutive layers form groups, and
// each layer of a group uses the parameters of the group's first one, but for those that stay private. A layer's
// gradients are added to those of the layers behind it in the order of the backward, in the type that gradients have on
// a rank.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace zrt::models {

struct Sharing {
  std::vector<int64_t> groups;        // sizes, in order; their sum is the model's layers
  std::vector<std::string> own = {};  // patterns of names, as fnmatch(3) has them, of parameters that stay private
  int64_t layers() const;
  bool operator==(const Sharing&) const = default;
};

// The number of the layer that a parameter belongs to, as its name says ("h.3.ln_1.weight", "model.layers.3.…"); -1: to
// none.
int64_t layer_of(const std::string& param);
// The name with another layer's number.
std::string with_layer(const std::string& param, int64_t layer);

// The name under which layers that share keep a parameter of the model: that of the group's first layer, or its own.
std::string shared_name(const Sharing& sharing, const std::string& param);
// Counts the layers that use what is kept under the name of a parameter; 1 where none shares it.
int64_t sharers(const Sharing& sharing, const std::string& param);

// The model with shared layers. Random numbers of parameters stay those of the model as it is. Throws ConfigError where
// the groups do not fit the model's layers, or where layers of a group differ.
Model share(const Model& model, const Sharing& sharing);

}  // namespace zrt::models
