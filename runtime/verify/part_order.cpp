#include "runtime/verify/part_order.h"

#include <algorithm>

namespace zrt::runtime::verification {

using models::Collective;
using models::Half;
using models::Parts;
using models::Port;

PartOrder::PartOrder(const Layout& layout, size_t block)
    : block_(*layout.model->blocks[block]),
      anatomy_(block_.anatomy()),
      mesh_(layout.mesh),
      rows_(layout.model->degrees.shares_rows()) {
  const bool splits = layout.stage.pipelined() && layout.stage.schedule.kind == ScheduleKind::zb_h1;
  apart_ = splits && anatomy_.halved != 0 && !layout.model->predicts(block);
  training_ = forward_runs(anatomy_.forward_in_training());
  whole_ = forward_runs(anatomy_.all());
  backward_ = halves(layout.overlap);
  if (!layout.model->embeds(block) && !layout.model->predicts(block)) recompute(layout, block);
  add_ports_again();
}

const std::vector<PartRun>& PartOrder::runs(OpKind kind) const {
  switch (kind) {
    case OpKind::forward:
      return training_;
    case OpKind::recompute:
      return recompute_;
    case OpKind::backward:
      return backward_;
    default:
      return whole_;
  }
}

Parts PartOrder::whole(OpKind kind) const {
  if (kind == OpKind::recompute) return again_;
  return kind == OpKind::forward ? anatomy_.forward_in_training() : anatomy_.all();
}

Collective PartOrder::completed_by(const Port& port, bool backward) const {
  if (ranks(port) == 1) return Collective::none;
  return backward ? port.seam.backward : port.seam.forward;
}

bool PartOrder::cut(size_t part, bool backward) const {
  return std::any_of(anatomy_.ports.begin(), anatomy_.ports.end(), [&](const Port& port) {
    return port.part == part && completed_by(port, backward) != Collective::none;
  });
}

uint64_t PartOrder::port_bytes(const Port& port, const models::Shape& shape) const {
  const size_t element = port.element == 0 ? core::dtype_size(shape.type) : port.element;
  int64_t rows = block_.port_rows(static_cast<size_t>(&port - anatomy_.ports.data()), shape);
  if (port.stacked) rows *= ranks(port);
  if (port.seam.forward == Collective::all_to_all) rows += rows;  // what goes, and what comes
  if (port.seam.axis == Axis::tensor && rows_ && !port.stacked && !port.seam.stays()) {
    rows = (rows + ranks(port) - 1) / ranks(port) * ranks(port);  // each rank has room for as many as any
  }
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(port.width) * element;
}

std::vector<PartRun> PartOrder::forward_runs(Parts parts) const {
  std::vector<PartRun> runs;
  for (uint8_t part = parts.first; part < parts.end; ++part) {
    const bool begins = part == parts.first || cut(part - 1u, false);
    if (begins) runs.push_back({{part, part}});
    runs.back().parts.end = static_cast<uint8_t>(part + 1);
  }
  return runs;
}

std::vector<PartRun> PartOrder::backward_runs() const {
  std::vector<PartRun> runs;
  for (uint8_t end = anatomy_.all().end; end > 0; --end) {
    const bool begins = end == anatomy_.all().end || cut(end - 1u, true);
    if (begins) runs.push_back({{end, end}});
    runs.back().parts.first = static_cast<uint8_t>(end - 1);
  }
  return runs;
}

// An input's gradient that ranks give each other is on its way before those of weights are made.
std::vector<PartRun> PartOrder::halves(bool overlap) const {
  const auto adds_up = [&](const PartRun& run) {
    return std::any_of(anatomy_.ports.begin(), anatomy_.ports.end(), [&](const Port& port) {
      const bool goes = port.seam.enters() || port.seam.backward == Collective::all_to_all;
      return goes && ranks(port) > 1 && run.parts.first == port.part + 1;
    });
  };
  std::vector<PartRun> runs;
  for (PartRun run : backward_runs()) {
    const bool comes_apart = overlap && anatomy_.halves(run.parts) && adds_up(run);
    if (apart_ || comes_apart) run.half = Half::input;
    runs.push_back(run);
    if (!apart_ && comes_apart) runs.push_back({run.parts, Half::weight});
  }
  if (apart_) runs.push_back({anatomy_.all(), Half::weight});
  return runs;
}

// Full recomputation runs a block again from its first part to the last that keeps something. Selective recomputation
// runs the parts that cost little, of which the first finds what it has kept.
void PartOrder::recompute(const Layout& layout, size_t block) {
  const Recompute how = layout.placement.keeps(block);
  if (how == Recompute::full) {
    const models::Shape shape = layout.shape(models::Mode::train, block);
    uint8_t end = anatomy_.all().end;
    while (end > 0 && layout.model->blocks[block]->saved_bytes(shape, end - 1u) == 0) --end;
    again_ = {0, end};
    if (end > 0) left_out_ = anatomy_.all();
  }
  if (how == Recompute::selective && anatomy_.light.first < anatomy_.light.end) {
    again_ = left_out_ = anatomy_.light;
    ++left_out_.first;
  }
  recompute_ = forward_runs(again_);
}

// In front of a backward run that reads a port stands the part that makes it, unless something has made it already.
void PartOrder::add_ports_again() {
  std::vector<bool> there(anatomy_.ports.size());
  for (size_t p = 0; p < there.size(); ++p) {
    for (const PartRun& run : recompute_)
      there[p] = there[p] || (run.parts.end == anatomy_.ports[p].part + 1u && run.parts.end < again_.end);
  }
  for (const PartRun& run : backward_runs()) {
    for (size_t p = 0; p < there.size(); ++p) {
      if (there[p] || !reads_back(anatomy_.ports[p], run.parts)) continue;
      recompute_.push_back({anatomy_.alone(p)});
      there[p] = true;
    }
  }
}

std::vector<PartOrder> part_orders(const Layout& layout) {
  std::vector<PartOrder> orders;
  for (size_t block = 0; block < layout.model->blocks.size(); ++block) orders.emplace_back(layout, block);
  return orders;
}

}  // namespace zrt::runtime::verification
