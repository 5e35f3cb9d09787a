// Tells a wish to stop from its echoes: coreutils' timeout, terminals and mpirun send several signals for one wish.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace zrt::runtime {

enum class StopSignal { first, echo, second };

// Safe in a signal handler.
class StopSignals {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds echo_time{2};  // after the first; a signal from then on is meant as a second

  StopSignal note(Time now) {
    int64_t first = never;
    if (first_.compare_exchange_strong(first, now.time_since_epoch().count())) return StopSignal::first;
    return now.time_since_epoch() - Time::duration(first) < echo_time ? StopSignal::echo : StopSignal::second;
  }

 private:
  static constexpr int64_t never = INT64_MIN;
  std::atomic<int64_t> first_{never};  // when it came
  static_assert(std::atomic<int64_t>::is_always_lock_free);
};

}  // namespace zrt::runtime
