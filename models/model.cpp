#include "models/model.h"

#include <algorithm>
#include <cmath>
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

Model Model::part(const std::vector<size_t>& numbers) const {
  Model result = *this;
  result.blocks.clear(), result.positions.clear();
  for (size_t number : numbers) {
    result.blocks.push_back(blocks[number]);
    result.positions.push_back({number, number == 0 ? 0 : blocks[number - 1]->output_width()});
  }
  auto all = std::make_shared<Whole>();
  all->blocks = blocks.size();
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const Param& param : blocks[block]->params()) {
      all->users[param.name].push_back(block);
    }
  }
  result.whole = std::move(all);
  if (!param_numbers)
    result.param_numbers = std::make_shared<const std::map<std::string, uint32_t>>(canonical_numbers());
  return result;
}

bool Model::receives(size_t block) const {
  if (embeds(block)) return false;
  return block == 0 || whole_number(block) != whole_number(block - 1) + 1;
}

bool Model::sends(size_t block) const {
  if (predicts(block)) return false;
  return block + 1 == blocks.size() || whole_number(block) + 1 != whole_number(block + 1);
}

std::map<std::string, uint32_t> Model::canonical_numbers() const {
  std::map<std::string, uint32_t> all;
  uint32_t position = 0, run = 0;  // tensors of a layer's experts so far
  for (const ParamRef& ref : canonical_params()) {
    const Param& param = blocks[ref.block]->params()[ref.index];
    all.emplace(param.name, position++);
    if (!param.spread || ++run < param.spread->tensors) continue;
    position += static_cast<uint32_t>(param.spread->places - 1) * run;  // those of the other ranks
    run = 0;
  }
  return all;
}

bool Model::used_elsewhere(const Param& param) const {
  if (!whole) return false;
  const std::vector<size_t>& users = whole->users.at(param.name);
  const auto here = std::count_if(users.begin(), users.end(), [&](size_t user) {
    return std::any_of(positions.begin(), positions.end(),
                       [&](const BlockPosition& position) { return position.number == user; });
  });
  return static_cast<size_t>(here) < users.size();
}

bool Model::used_first_elsewhere(const Param& param) const {
  if (!whole) return false;
  const size_t first = whole->users.at(param.name).front();
  return std::none_of(positions.begin(), positions.end(),
                      [&](const BlockPosition& position) { return position.number == first; });
}

int64_t Model::parameters() const {
  int64_t count = 0;
  for (const ParamRef& ref : canonical_params()) count += blocks[ref.block]->params()[ref.index].elements_of_all();
  return count;
}

int64_t Model::active_parameters() const {
  double count = 0;
  for (const ParamRef& ref : canonical_params()) {
    const Param& param = blocks[ref.block]->params()[ref.index];
    count += param.share * static_cast<double>(param.elements_of_all());
  }
  return std::llround(count);
}

double Model::flops_per_token() const {
  double flops = 0;
  std::unordered_set<std::string_view> embedded;
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const Param& param : blocks[block]->params()) {
      // Layers that share a matrix multiply by it each; of an embedding and a head that share theirs, the head alone.
      if (embeds(block)) embedded.insert(param.name);
      if (predicts(block) && !embeds(block) && embedded.contains(param.name)) continue;
      const bool of_positions = param.name == "wpe.weight" || param.name.ends_with("position_embeddings.weight");
      // Nobody makes the gradient of what is frozen.
      const double used = param.share * static_cast<double>(param.elements_of_all());
      if (!of_positions) flops += (trains(param) ? 6 : 4) * used;
    }
  }
  const int64_t width = attended > 0 ? attended : hidden;
  const double dense = 6 * static_cast<double>(layers) * static_cast<double>(width) * static_cast<double>(sequence);
  return flops + dense * attention_share;
}

}  // namespace zrt::models
