// A list of what a layer is made of, which its model fills in. Parameters stand in the order in which they are added.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/common/attention.h"
#include "models/common/mlp.h"
#include "models/common/norm.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

struct LayerForm {
  BlockSizes sizes;
  std::string name;
  Norm norm;  // both are of this form
  std::vector<Param> params = {};
  size_t first_norm_weight = 0, second_norm_weight = 0;  // among params
  Attention attention = {};
  std::unique_ptr<const Mlp> mlp = {};
  bool post_norm = false;  // see Layer
  struct NormsBehind {
    size_t attention = 0, mlp = 0;  // their weights among params
  };
  std::optional<NormsBehind> norms_behind = {};  // see Layer; not with post_norm or dropout
  std::optional<int64_t> dropout_number = {};    // of the layer among those with dropout; nothing: it never has any
  std::optional<uint32_t> first_norm_site = {};  // of dropout behind the first norm; nothing: there is none

  // Returns where its parameters begin.
  size_t add_norm(const std::string& prefix) {
    const size_t weight = params.size();
    norm.add_params(params, prefix, sizes.degrees.shares_rows());
    return weight;
  }
  // Adds an adapter, too, where the layer `prefix` is to have one.
  Product add_product(const std::string& prefix, const Linear& whole, float deviation, int64_t sections = 1) {
    Product product = models::add_product(params, sizes.degrees.tensor, prefix, whole, deviation, sections);
    if (sizes.adapters.takes(prefix)) {
      add_adapter(product, params, sizes.degrees.tensor, prefix, whole, sizes.adapters, sections);
    }
    return product;
  }
};

}  // namespace zrt::models
