#include "runtime/program/layout.h"

#include <algorithm>

namespace zrt::runtime {

bool Layout::exchanges(models::Seam seam, bool backward) const {
  if (mesh.tensor() == 1 || seam == models::Seam::stay) return false;
  return shares_rows() || seam == models::Seam::tell || seam == (backward ? models::Seam::enter : models::Seam::leave);
}

std::vector<models::Parts> Layout::runs(size_t block, models::Parts parts, bool backward) const {
  std::vector<models::Parts> result{parts};
  for (const models::Port& port : model->blocks[block]->anatomy().ports) {
    const auto cut = static_cast<uint8_t>(port.part + 1);
    if (!exchanges(port.seam, backward) || !parts.has(port.part) || !parts.has(cut)) continue;
    result.back().end = cut;
    result.push_back({cut, parts.end});
  }
  return result;
}

bool Layout::weights_apart(size_t block) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  return stage.pipelined() && stage.schedule.kind == ScheduleKind::zb_h1 && !model->predicts(block) &&
         anatomy.halves(anatomy.all());
}

models::Parts Layout::held_parts(size_t block, models::Parts run) const {
  return weights_apart(block) ? model->blocks[block]->anatomy().all() : run;
}

std::vector<BackwardRun> Layout::backward_runs(size_t block) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  const std::vector<models::Parts> all = runs(block, anatomy.all(), true);
  std::vector<BackwardRun> result;
  for (auto run = all.rbegin(); run != all.rend(); ++run) {
    const bool adds_up = std::any_of(anatomy.ports.begin(), anatomy.ports.end(), [&](const models::Port& port) {
      return port.part + 1 == run->first && port.seam == models::Seam::enter && exchanges(port.seam, true);
    });
    const bool apart = weights_apart(block);
    if (!apart && (!overlap || !adds_up || !anatomy.halves(*run))) {
      result.push_back({*run});
      continue;
    }
    result.push_back({*run, models::Half::input});
    if (!apart) result.push_back({*run, models::Half::weight});
  }
  if (weights_apart(block)) result.push_back({anatomy.all(), models::Half::weight});
  return result;
}

bool Layout::reads_back(size_t block, size_t port, models::Parts run) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  return shares_rows() && anatomy.reads_back(anatomy.ports[port], run);
}

std::vector<size_t> Layout::made_again(size_t block, models::Parts run) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  const std::vector<models::Parts> all = runs(block, anatomy.all(), true);
  std::vector<size_t> result;
  if (!shares_rows()) return result;
  for (size_t port = 0; port < anatomy.ports.size(); ++port) {
    const size_t made = anatomy.ports[port].part;
    const models::Parts rerun = this->rerun(block);
    if (rerun.has(made) && rerun.has(made + 1)) continue;
    const auto first = std::find_if(all.rbegin(), all.rend(),
                                    [&](const models::Parts& each) { return reads_back(block, port, each); });
    if (first != all.rend() && *first == run) result.push_back(port);
  }
  return result;
}

std::vector<models::Parts> Layout::recomputes(size_t block) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  std::vector<models::Parts> result;
  if (const models::Parts rerun = this->rerun(block); rerun.count() > 0) result = runs(block, rerun, false);
  const std::vector<models::Parts> backwards = runs(block, anatomy.all(), true);
  for (auto run = backwards.rbegin(); run != backwards.rend(); ++run) {
    for (size_t port : made_again(block, *run)) result.push_back(anatomy.alone(port));
  }
  return result;
}

models::Parts Layout::forward_parts(size_t block, models::Mode mode) const {
  const models::Anatomy& anatomy = model->blocks[block]->anatomy();
  return mode == models::Mode::train ? anatomy.forward_in_training() : anatomy.all();
}

uint64_t Layout::port_bytes(const models::Port& port, const models::Shape& shape) const {
  const uint64_t element = port.element > 0 ? port.element : core::dtype_size(shape.type);
  const bool by_rows = port.seam == models::Seam::enter || port.seam == models::Seam::leave;
  const int64_t rows = shares_rows() && by_rows ? row_share(shape) * mesh.tensor() : shape.rows();
  const uint64_t bytes = static_cast<uint64_t>(rows * port.width) * element;
  return port.seam == models::Seam::tell ? bytes * static_cast<uint64_t>(mesh.tensor()) : bytes;
}

uint64_t Layout::boundary_bytes(int64_t width, const models::Shape& shape) const {
  if (shares_rows()) return stream_bytes(width, shape);
  const int tensor = mesh.tensor();
  const int64_t share = (shape.rows() * width + tensor - 1) / tensor;
  return static_cast<uint64_t>(share * tensor) * core::dtype_size(shape.type);
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
