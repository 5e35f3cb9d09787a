// Ranks of a host tell each other about calls of NCCL, which they queue without meeting. Each function may be empty;
// any thread may call them.
#pragma once
#include <chrono>
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

  // NCCL's watch gives other ranks so much time, beyond a call's time-out, to name the one that stands: ranks that
  // watch each other's streams can (comm/process/rendezvous_streams.cpp), and where all of this host wait, ranks of its
  // own host. `named`: what standing() said.
  std::chrono::milliseconds patience(const std::string& named) const {
    const bool others_know = watch || (standing && named.empty());
    return std::chrono::milliseconds(others_know ? 2500 : 0);
  }
};

}  // namespace zrt::comm
