#include "runtime/passes/sliding.h"

#include <algorithm>

#include "runtime/program/placement_rules.h"

namespace zrt::runtime {

uint32_t layers_at_once(const Layout& layout) {
  const Sliding& sliding = layout.placement.sliding;
  const auto layers = static_cast<uint32_t>(layer_blocks(*layout.model).size());
  return std::min(layers, sliding.layers + (layout.prefetch == 0 ? 0 : sliding.together));
}

SlidingLayers::SlidingLayers(const Layout& layout, const StateBuffers& state)
    : layers_(static_cast<uint32_t>(layer_blocks(*layout.model).size())),
      together_(layout.placement.sliding.together),
      at_once_(layers_at_once(layout)),
      block_layers_(layout.model->blocks.size()) {
  for (size_t block : layer_blocks(*layout.model)) {
    const auto layer = static_cast<uint32_t>(weights_.size());
    block_layers_[block] = layer;
    std::vector<BufferId>& weights = weights_.emplace_back();
    for (uint32_t u : layout.units.blocks[block]) {
      weights.push_back(state.weight[u]);
      layers_of_[state.weight[u]] = layer;
    }
  }
}

std::optional<uint32_t> SlidingLayers::layer_of(BufferId weight) const {
  const auto found = layers_of_.find(weight);
  return found == layers_of_.end() ? std::nullopt : std::optional(found->second);
}

// The layer that an op works on, or whose weights it gathers for one that does.
std::optional<uint32_t> SlidingLayers::layer_of(const Op& op) const {
  if (computes(op)) return block_layers_[op.block];
  if (spec(op.kind).site != Site::device) return {};
  for (const Access& access : op.accesses) {
    if (const auto layer = layer_of(access.buffer)) return layer;
  }
  return {};
}

// The first layers of the segment, in its direction.
SlidingLayers::There SlidingLayers::begin(const Segment& segment, There there, std::vector<Move>& moves) const {
  const uint32_t layer = segment.visits.front().layer;
  if (there && layer >= *there && layer < *there + at_once_) return there;
  const auto other = std::find_if(segment.visits.begin(), segment.visits.end(),
                                  [&](const Visit& visit) { return visit.layer != layer; });
  const bool down = other != segment.visits.end() && other->layer < layer;
  const uint32_t lowest = down ? layer + 1 - std::min(layer + 1, at_once_) : std::min(layer, layers_ - at_once_);
  Move move{segment.first_work, {}, {}};
  for (uint32_t l = 0; l < at_once_; ++l) {
    if (there) move.leave.push_back(*there + l);
    move.come.push_back(down ? lowest + at_once_ - 1 - l : lowest + l);
  }
  moves.push_back(std::move(move));
  return lowest;
}

SlidingLayers::There SlidingLayers::walk(const Segment& segment, There there, std::vector<Move>& moves) const {
  if (segment.visits.empty()) return there;
  there = begin(segment, there, moves);
  for (size_t v = 0; v + 1 < segment.visits.size(); ++v) {
    const uint32_t layer = segment.visits[v].layer, next = segment.visits[v + 1].layer;
    if (next == layer) continue;
    const bool up = next > layer;
    const uint32_t done = up ? layer + 1 - *there : *there + at_once_ - layer;
    const uint32_t beyond = up ? layers_ - *there - at_once_ : *there;
    const uint32_t count = std::min(together_, beyond);
    if (count == 0 || done < count) continue;
    Move move{segment.visits[v].last + 1, {}, {}};
    for (uint32_t l = 0; l < count; ++l) {
      move.leave.push_back(up ? *there + l : *there + at_once_ - 1 - l);
      move.come.push_back(up ? *there + at_once_ + l : *there - 1 - l);
    }
    there = up ? *there + count : *there - count;
    moves.push_back(std::move(move));
  }
  return there;
}

std::vector<SlidingLayers::Moves> SlidingLayers::plan(const Draft& draft) const {
  if (draft.phase != "step" && draft.phase != "eval" && draft.phase != "decode") {
    return std::vector<Moves>(draft.segments.size());
  }
  std::vector<Segment> segments;
  for (const DraftSegment& from : draft.segments) {
    Segment& segment = segments.emplace_back();
    segment.repeat = from.repeat;
    segment.first_work = static_cast<size_t>(std::find_if(from.ops.begin(), from.ops.end(), works) - from.ops.begin());
    for (size_t i = 0; i < from.ops.size(); ++i) {
      const auto layer = layer_of(from.ops[i]);
      if (!layer) continue;
      segment.first_work = std::min(segment.first_work, i);
      if (segment.visits.empty() || segment.visits.back().layer != *layer) segment.visits.push_back({*layer, i, i});
      segment.visits.back().last = i;
    }
  }
  return plan(segments);
}

std::vector<SlidingLayers::Moves> SlidingLayers::plan(const std::vector<Segment>& segments) const {
  std::vector<Moves> all(segments.size());
  There there;
  std::optional<size_t> before;  // the last segment that visits layers
  for (size_t s = 0; s < segments.size(); ++s) {
    if (segments[s].visits.empty()) continue;
    There end = walk(segments[s], there, all[s].moves);
    if (segments[s].repeat > 1 && end != there) {
      if (before) all[*before].empties = true;
      all[s] = {{}, true};
      walk(segments[s], {}, all[s].moves);
      end.reset();
    }
    there = end;
    before = s;
  }
  if (before) all[*before].empties = true;
  return all;
}

}  // namespace zrt::runtime
