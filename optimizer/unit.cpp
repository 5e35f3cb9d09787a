#include "optimizer/unit.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/sharing.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Blocks that use each parameter, by name.
std::map<std::string, std::vector<uint32_t>> users(const models::Model& model) {
  std::map<std::string, std::vector<uint32_t>> blocks;
  for (uint32_t b = 0; b < model.blocks.size(); ++b) {
    for (const models::Param& param : model.blocks[b]->params()) blocks[param.name].push_back(b);
  }
  return blocks;
}

}  // namespace

int64_t Unit::parameters() const {
  int64_t sum = 0;
  for (const UnitParam& param : params) sum += param.param->elements();
  return sum;
}

SavedPart saved_part(const Unit& unit, const core::Mesh& mesh, int rank) {
  const int64_t count = unit.elements / mesh.degree(unit.replica_axes());
  const int64_t skipped = mesh.place(unit.replica_axes().without(unit.shard_axes), rank) * count;
  return {mesh.place(unit.shard_axes, rank) * unit.shard + skipped, count, skipped};
}

size_t UnitTable::trained(std::span<const uint32_t> units_of_block) const {
  const auto frozen =
      std::find_if(units_of_block.begin(), units_of_block.end(), [&](uint32_t u) { return !units[u].trained; });
  return static_cast<size_t>(frozen - units_of_block.begin());
}

int64_t UnitTable::padding() const {
  int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.elements - unit.parameters();
  return sum;
}

UnitTable make_units(const models::Model& model, const Cut& cut, int64_t unit_elements, Persistence persistence,
                     const Optimizer* optimizer) {
  UnitTable table;
  table.cut = cut;
  const auto param_users = users(model);
  std::map<std::string, ParamPlace> places;
  const std::map<std::string, uint32_t> own_numbers =
      model.param_numbers ? std::map<std::string, uint32_t>{} : model.canonical_numbers();
  int64_t persistent_elements = 0;
  // The unit that takes the next parameter of a kind: trained, persistent, group, packed, and how ranks share it.
  std::map<std::tuple<bool, bool, uint32_t, bool, bool, bool, bool>, size_t> open;
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    const auto& blocks = param_users.at(param.name);
    const int64_t extent = round_up(param.elements(), cut.alignment);
    const bool hidden = !model.embeds(blocks.front()) && !model.predicts(blocks.back());
    const bool trained = model.trains(param), copied = model.used_elsewhere(param);
    const bool packed = cut.frozen && !trained && hidden && !copied && !param.adapter && param.shape.size() == 2;
    const bool persistent = !packed && param.elements() < persistence.parameter &&
                            persistent_elements + param.elements() <= persistence.model;
    if (persistent) persistent_elements += param.elements();
    const uint32_t group = trained && optimizer ? optimizer->group_of(param, hidden) : 0;
    const bool alone = copied || (trained && optimizer && optimizer->refines(group));
    const bool sliced = param.slice.has_value(), summed = trained && param.summed;
    const bool spread = param.spread.has_value();
    size_t& at = open.try_emplace({trained, persistent, group, packed, sliced, summed, spread}, SIZE_MAX).first->second;
    // A unit never spans blocks: it is gathered for one of them at a time.
    if (at == SIZE_MAX || alone || table.units[at].blocks != blocks ||
        table.units[at].elements + extent > unit_elements) {
      at = table.units.size();
      Unit& made = table.units.emplace_back();
      made.name = param.name, made.blocks = blocks, made.group = group, made.held = cut.held;
      if (persistent) made.held.weights = Extent::full;
      made.shard_axes = made.holder_axes = spread ? cut.shard_axes.without(core::Axis::expert) : cut.shard_axes;
      if (sliced) made.holder_axes = made.shard_axes | core::Axis::tensor;
      if (spread) made.gradient_axes = core::expert_data_axes;
      if (summed) made.gradient_axes = core::data_axes | core::Axis::tensor;
      made.of_layers = copied && model.shares_layers && models::layer_of(param.name) >= 0;
      made.copied = copied, made.counted_elsewhere = model.used_first_elsewhere(param), made.trained = trained;
      if (packed) made.packed = cut.frozen;
    }
    const size_t here = at;
    if (copied) at = SIZE_MAX;  // nothing else joins it
    Unit& unit = table.units[here];
    unit.params.push_back(
        UnitParam{&param, unit.elements, model.param_numbers ? model.number(param) : own_numbers.at(param.name)});
    places[param.name] = ParamPlace{static_cast<uint32_t>(here), unit.elements};
    unit.elements += extent;
  }
  for (Unit& unit : table.units) {
    if (unit.params.size() > 1) unit.name += " … " + unit.params.back().param->name;
    unit.elements = round_up(unit.elements, cut.mesh.degree(unit.replica_axes()) * cut.alignment);
    unit.shard = unit.elements / cut.mesh.degree(unit.shard_axes);
  }
  for (const auto& block : model.blocks) {
    auto& params = table.params.emplace_back();
    auto& units = table.blocks.emplace_back();
    for (const models::Param& param : block->params()) {
      params.push_back(places.at(param.name));
      units.push_back(params.back().unit);
    }
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    std::stable_partition(units.begin(), units.end(), [&](uint32_t u) { return table.units[u].trained; });
  }
  return table;
}

}  // namespace zrt::optimizer
