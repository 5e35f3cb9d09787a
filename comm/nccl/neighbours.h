// Ranks of a host tell each other about calls of NCCL, which they queue without meeting. Each function may be empty;
// any thread may call them.
#pragma once
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace zrt::comm {

struct Neighbours {
  std::function<void()> waits;                      // this rank's GPU stands in a call just now
  std::function<void(const FlightRecord&)> queued;  // this rank gives its GPU a call; the label begins with its group
  std::function<std::string()> last_calls;          // of the host's other ranks, for a report
  std::function<std::string()> standing;            // ranks of this group and host that do not wait; "" where all do
  // They watch each other's streams, and can name the one that stands, as NCCL cannot: they speak first.
  bool watch = false;
};

}  // namespace zrt::comm
