#include "runtime/program/block_plan.h"

#include <algorithm>

namespace zrt::runtime {

using models::Collective;
using models::Half;
using models::Parts;
using models::Port;

BlockPlan::BlockPlan(const Layout& layout, size_t block)
    : block_(layout.model->blocks[block].get()),
      anatomy_(&block_->anatomy()),
      mesh_(layout.mesh),
      shares_rows_(layout.shares_rows()) {
  const models::Model& model = *layout.model;
  const models::Block& what = *model.blocks[block];
  const Stage& stage = layout.stage;
  weights_apart_ = stage.pipelined() && stage.schedule.kind == ScheduleKind::zb_h1 && !model.predicts(block) &&
                   anatomy_->halves(anatomy_->all());
  const bool early = stage.index == 0 && stage.early() > 0 && model.receives(block);
  input_tier_ = early ? core::Tier::device : layout.placement.activation(static_cast<uint32_t>(block));

  const Recompute asked = layout.placement.keeps(block);
  if (asked > Recompute::none && !model.embeds(block) && !model.predicts(block)) {
    const bool full = asked == Recompute::full;
    const Parts& light = anatomy_->light;
    rerun_ = full ? models::parts_to_rerun(what, layout.shape(models::Mode::train, block)) : light;
    if (rerun_.count() > 0) {
      recompute_ = asked;
      left_out_ = full ? anatomy_->all() : Parts{static_cast<uint8_t>(light.first + 1), light.end};
    }
  }

  backward_ = backward_runs(layout.overlap);
  if (rerun_.count() > 0) recomputes_ = runs(rerun_, false);
  const std::vector<Parts> all = runs(anatomy_->all(), true);
  for (auto run = all.rbegin(); run != all.rend(); ++run) {
    for (size_t port : made_again(*run)) recomputes_.push_back(anatomy_->alone(port));
  }
}

Collective BlockPlan::collective(const Port& port, bool gradient) const {
  return mesh_.degree(port.seam.axis) > 1 ? port.seam.of(gradient) : Collective::none;
}

uint64_t BlockPlan::port_bytes(const Port& port, const models::Shape& shape) const {
  const uint64_t element = port.element > 0 ? port.element : core::dtype_size(shape.type);
  const int ranks = mesh_.degree(port.seam.axis);
  int64_t rows = block_->port_rows(static_cast<size_t>(&port - anatomy_->ports.data()), shape);
  if (port.seam.delivers()) {
    rows *= 2;
  } else if (port.stacked) {
    rows *= ranks;
  } else if (shares_rows_ && !port.seam.stays()) {
    rows = (rows + ranks - 1) / ranks * ranks;  // each rank has room for as many
  }
  return static_cast<uint64_t>(rows * port.width) * element;
}

std::vector<Parts> BlockPlan::runs(Parts parts, bool backward) const {
  std::vector<Parts> result{parts};
  for (const Port& port : anatomy_->ports) {
    const auto cut = static_cast<uint8_t>(port.part + 1);
    if (collective(port, backward) == Collective::none || !parts.has(port.part) || !parts.has(cut)) continue;
    if (result.back().first == cut) continue;  // another port has cut it there
    result.back().end = cut;
    result.push_back({cut, parts.end});
  }
  return result;
}

std::vector<BackwardRun> BlockPlan::backward_runs(bool overlap) const {
  const std::vector<Parts> all = runs(anatomy_->all(), true);
  std::vector<BackwardRun> result;
  for (auto run = all.rbegin(); run != all.rend(); ++run) {
    const bool sends = std::any_of(anatomy_->ports.begin(), anatomy_->ports.end(), [&](const Port& port) {
      const Collective completed = collective(port, true);
      return port.part + 1 == run->first && (models::adds_up(completed) || completed == Collective::all_to_all);
    });
    if (!weights_apart_ && (!overlap || !sends || !anatomy_->halves(*run))) {
      result.push_back({*run});
      continue;
    }
    result.push_back({*run, Half::input});
    if (!weights_apart_) result.push_back({*run, Half::weight});
  }
  if (weights_apart_) result.push_back({anatomy_->all(), Half::weight});
  return result;
}

std::vector<size_t> BlockPlan::made_again(Parts run) const {
  std::vector<size_t> result;
  if (!shares_rows_) return result;
  const std::vector<Parts> all = runs(anatomy_->all(), true);
  for (size_t p = 0; p < anatomy_->ports.size(); ++p) {
    const Port& port = anatomy_->ports[p];
    if (rerun_.has(port.part) && rerun_.has(port.part + 1u)) continue;
    const auto first =
        std::find_if(all.rbegin(), all.rend(), [&](const Parts& each) { return reads_back(port, each); });
    if (first != all.rend() && *first == run) result.push_back(p);
  }
  return result;
}

std::vector<BlockPlan> plan_blocks(const Layout& layout) {
  std::vector<BlockPlan> plans;
  for (size_t b = 0; b < layout.model->blocks.size(); ++b) plans.emplace_back(layout, b);
  return plans;
}

}  // namespace zrt::runtime
