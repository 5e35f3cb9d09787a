// Calls that a GPU has been given and has not finished, and the one that stands still.
#pragma once
#include <chrono>
#include <list>
#include <mutex>
#include <string>

#include "core/stream.h"

namespace zrt::comm {

class QueuedCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // `begin` and `end` are recorded before and behind what the call gives its stream. Any thread, as the next one.
  void add(std::string what, core::Event begin, core::Event end);

  // The call in which its GPU has stood longest; "" where it is in none.
  struct Standing {
    std::string call;
    Clock::duration stood{};
  };
  // Forgets what has ended. Time is added up over the looks that found a GPU in a call; each counts two seconds at
  // most, for this process may have been stopped meanwhile. A stream that has not come as far is not to blame: what
  // lies before may be long.
  Standing look(Clock::time_point now);

 private:
  struct Queued {
    std::string what;
    core::Event begin, end;
    bool seen = false;  // at its begin
    Clock::duration stood{};
  };
  std::mutex mutex_;  // guards what follows
  std::list<Queued> calls_;
  Clock::time_point last_look_{};
};

}  // namespace zrt::comm
