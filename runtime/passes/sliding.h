// Decides which layers have their weights on the device while a program runs, where those of a few slide over all of
// them (Placement::sliding). A step goes up the layers in its forwards and down in its backwards. Of the layers that
// are there, as many as move together leave once all of them are computed, and the next ones in that direction come; at
// a turn nothing moves, as what was computed last is needed first. Where something may be brought ahead of its use,
// there is room for those that come beside all others, so that they come while those that leave are still computed.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/passes/draft.h"

namespace zrt::runtime {

// Returns the number of layers that have room on the device.
uint32_t layers_at_once(const Layout& layout);

class SlidingLayers {
 public:
  struct Visit {
    uint32_t layer = 0;
    size_t first = 0, last = 0;  // of the ops that work on it
  };
  struct Segment {  // of a draft
    std::vector<Visit> visits;
    size_t first_work = 0;  // what comes at the begin comes in front of this op
    uint32_t repeat = 1;
  };
  struct Move {
    size_t op = 0;                      // that it stands in front of
    std::vector<uint32_t> leave, come;  // in the order in which they are needed
  };
  struct Moves {
    std::vector<Move> moves;
    bool empties = false;  // at the segment's end all leave
  };

  SlidingLayers(const Layout& layout, const StateBuffers& state);

  std::optional<uint32_t> layer_of(BufferId weight) const;  // none: these do not slide
  const std::vector<BufferId>& weights(uint32_t layer) const { return weights_[layer]; }
  // Returns the moves by segment. Programs that take unit after unit have none. What is there at a segment's end stays
  // for the next one, unless a repeated segment began with something else.
  std::vector<Moves> plan(const Draft& draft) const;
  std::vector<Moves> plan(const std::vector<Segment>& segments) const;

 private:
  using There = std::optional<uint32_t>;  // the lowest layer that is there
  std::optional<uint32_t> layer_of(const Op& op) const;
  There walk(const Segment& segment, There there, std::vector<Move>& moves) const;
  There begin(const Segment& segment, There there, std::vector<Move>& moves) const;

  uint32_t layers_, together_, at_once_;
  std::vector<std::vector<BufferId>> weights_;         // by layer
  std::map<BufferId, uint32_t> layers_of_;             // the same
  std::vector<std::optional<uint32_t>> block_layers_;  // by block: which of the layers it is
};

}  // namespace zrt::runtime
