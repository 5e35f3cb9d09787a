// A block comes apart into parts, which are computed one after the other, backward in reverse. A port is what one part
// hands to the next where tensor-parallel ranks may have to exchange it; a run of parts without an exchange in between
// is one call, and a port inside a run is the block's own affair. What a part makes may be made again, instead of being
// kept, by running it again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/seam.h"

namespace zrt::models {

// Consecutive parts of a block.
struct Parts {
  uint8_t first = 0, end = 0;
  bool has(size_t part) const { return first <= part && part < end; }
  size_t count() const { return static_cast<size_t>(end - first); }
  bool operator==(const Parts&) const = default;
};
inline constexpr Parts all_parts{0, 255};

// A backward runs whole, or in halves: `input` makes gradients of inputs, and `weight` later, from what that has left
// (Call::held), those of parameters.
enum class Half : uint8_t { both, input, weight };

struct Port {
  std::string_view name;
  uint8_t part = 0;   // that makes it; the next one reads it
  int64_t width = 0;  // elements of a row
  Seam seam{};
  size_t element = 0;    // bytes; 0: of the compute type
  bool stacked = false;  // (ranks, rows, width) of the seam's ranks, of which each fills in its rows
  // The port (1, int32) beside it that says which rows of each message of an all-to-all are used: the first ones, up to
  // one below 0. It is delivered before. Itself: all are.
  static constexpr uint8_t all_used = 255;
  uint8_t used_by = all_used;
};

struct Anatomy {
  std::vector<std::string_view> parts;  // names
  std::vector<Port> ports;              // in the order of parts, but for those that stay with a rank
  // The parts that are run again for backward where a block keeps less than all, since what all but the first of them
  // keep is large for what it costs to compute. The first finds what it has kept (Call::again). Empty: there are none.
  Parts light;
  // A block reads its input up to this part, and from it on down backward makes the gradient of that; it reads the
  // gradient of the output down to it.
  uint8_t input_part = 0;
  uint32_t halved = 0;  // a bit for each part whose backward comes in halves
  // The number of last parts that training computes in backward alone; forward has no ports of theirs.
  uint8_t backward_only = 0;
  bool halves(Parts run) const {
    for (size_t part = run.first; part < run.end && part < parts.size(); ++part) {
      if ((halved >> part & 1) != 0) return true;
    }
    return false;
  }
  Parts alone(size_t port) const { return {ports[port].part, static_cast<uint8_t>(ports[port].part + 1)}; }  // its part
  Parts all() const { return {0, static_cast<uint8_t>(parts.size())}; }
  Parts forward_in_training() const { return {0, static_cast<uint8_t>(parts.size() - backward_only)}; }
  // Says that the backward of a run reads what forward handed on in a port that enters. Parts that are computed in
  // backward alone all read that of the first of them.
  bool reads_back(const Port& port, Parts run) const {
    const size_t next = port.part + 1u;
    return port.seam.enters() && (run.has(next) || (next + backward_only >= parts.size() && run.first > next));
  }
  // The part in which a head's loss is known: in backward the first backward-only one, outside training the last one.
  size_t loss_part(bool backward) const {
    return backward && backward_only > 0 ? parts.size() - backward_only : parts.size() - 1;
  }
};

}  // namespace zrt::models
