#include "models/model.h"

#include <string_view>
#include <unordered_set>

namespace zrt::models {

std::vector<Model::ParamRef> Model::canonical_params() const {
  std::vector<ParamRef> refs;
  std::unordered_set<std::string_view> seen;
  for (size_t block = 0; block < blocks.size(); ++block) {
    const auto& params = blocks[block]->params();
    for (size_t index = 0; index < params.size(); ++index) {
      if (seen.insert(params[index].name).second) refs.push_back({block, index});
    }
  }
  return refs;
}

int64_t Model::parameters() const {
  int64_t count = 0;
  for (const ParamRef& ref : canonical_params()) count += blocks[ref.block]->params()[ref.index].elements();
  return count;
}

double Model::flops_per_token() const {
  double count = 0;
  for (const ParamRef& ref : canonical_params()) {
    const Param& param = blocks[ref.block]->params()[ref.index];
    if (param.name != "wpe.weight") count += static_cast<double>(param.elements());
  }
  const int64_t width = attended > 0 ? attended : hidden;
  return 6 * count + 6 * static_cast<double>(layers) * static_cast<double>(width) * static_cast<double>(sequence);
}

}  // namespace zrt::models
