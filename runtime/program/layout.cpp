#include "runtime/program/layout.h"

namespace zrt::runtime {

std::vector<Group> Layout::group_table() const {
  std::vector<Group> table{{GroupKind::data, "dp", dp, 1},
                           {GroupKind::data_inner, "dp.inner", groups.inner, 1},
                           {GroupKind::data_outer, "dp.outer", dp / groups.inner, groups.inner}};
  if (!stage.pipelined()) return table;
  table.push_back({GroupKind::world, "world", world(), 1});
  for (const bool forward : {true, false}) {
    for (const int boundary : {0, 1}) {
      table.push_back({link_over(boundary, forward),
                       std::string(boundary == 0 ? "pp.even." : "pp.odd.").append(forward ? "forward" : "backward"), 2,
                       dp, boundary * dp});
    }
  }
  if (stage.schedule.chunks > 1) {
    const int last = (stage.schedule.stages - 1) * dp;
    table.push_back({GroupKind::wrap_forward, "pp.wrap.forward", 2, last});
    table.push_back({GroupKind::wrap_backward, "pp.wrap.backward", 2, last});
  }
  table.push_back({GroupKind::copies, "embedding", 2, (stage.schedule.stages - 1) * dp});
  return table;
}

core::Tier Layout::input_tier(size_t block) const {
  const bool early = stage.index == 0 && stage.early() > 0 && model->receives(block);
  return early ? core::Tier::device : placement.activation(static_cast<uint32_t>(block));
}

Recompute Layout::recompute(size_t block) const {
  const Recompute asked = placement.keeps(block);
  if (asked == Recompute::none || model->embeds(block) || model->predicts(block)) return Recompute::none;
  const models::Block& what = *model->blocks[block];
  const models::Parts parts =
      asked == Recompute::full ? models::parts_to_rerun(what, shape(models::Mode::train)) : what.anatomy().light;
  return parts.count() > 0 ? asked : Recompute::none;
}

models::Parts Layout::left_out(size_t block) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  switch (recompute(block)) {
    case Recompute::full:
      return anatomy.all();
    case Recompute::selective:
      return {static_cast<uint8_t>(anatomy.light.first + 1), anatomy.light.end};
    default:
      return {};
  }
}

models::Parts Layout::rerun(size_t block) const {
  const models::Block& what = *model->blocks[block];
  switch (recompute(block)) {
    case Recompute::full:
      return models::parts_to_rerun(what, shape(models::Mode::train));
    case Recompute::selective:
      return what.anatomy().light;
    default:
      return {};
  }
}

Sharing Layout::sharing() const {
  Sharing result = Sharing::none;
  for (const optimizer::Unit& unit : units.units) {
    if (unit.blocks.size() < 2) continue;
    if (unit.blocks.size() > 2 || unit.blocks[0] != 0) return Sharing::elsewhere;
    result = Sharing::first_block;
  }
  return result;
}

uint32_t Layout::together() const {
  if (stage.pipelined()) return 1;
  return order->together(
      {microbatches, reduce_every, zero.grads == optimizer::Extent::full, sharing() == Sharing::elsewhere});
}

}  // namespace zrt::runtime
