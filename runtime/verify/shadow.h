// Shadow memory: for every byte of the tiers which slot of which buffer it holds, and which executions may still be
// using it. Stretches of equal history are one entry, so that work and memory follow the number of accesses.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/program/timeline.h"

namespace zrt::runtime::verification {

using SlotId = uint32_t;  // slots of all buffers numbered in order

struct Execute {  // an execution by its lane and its number there
  uint8_t lane = 0;
  uint32_t index = 0;
};

struct Stretch {
  uint64_t end = 0;
  SlotId owner = 0;
  Execute writer;
  bool written = false;  // in this program
  std::array<uint32_t, max_lanes>
      used{};  // by lane: 1 + the latest execution that uses it since the write, it included
  void use(Execute by) { used[by.lane] = by.index + 1; }
};

class Shadow {
 public:
  explicit Shadow(const ProgramSet& set);

  SlotId slot(BufferId buffer, uint32_t number) const { return first_[buffer] + number; }
  BufferId buffer(SlotId slot) const;
  // The bytes of a slot while they hold its contents and nothing else's; else null.
  Stretch* whole(SlotId slot) { return whole_[slot]; }
  // Gives the bytes of a slot to it. Calls `leaves` for every stretch that it takes over before it does.
  Stretch& take(SlotId slot, Execute by, const std::function<void(const Stretch&)>& leaves);
  // The taker of bytes of a slot that held its contents; `known` is false when there is none.
  struct Taker {
    SlotId slot = 0;
    Execute by;
    bool known = false;
  };
  const Taker& taker(SlotId slot) const { return takers_[slot]; }

 private:
  struct Range {
    size_t tier;
    uint64_t begin, end;  // red zone included
  };
  Range range(SlotId slot) const;

  const ProgramSet& set_;
  std::vector<SlotId> first_;  // by buffer, and one past the last
  std::vector<Stretch*> whole_;
  std::vector<Taker> takers_;
  std::array<std::map<uint64_t, Stretch>, core::tier_count> tiers_;  // by first byte
};

}  // namespace zrt::runtime::verification
