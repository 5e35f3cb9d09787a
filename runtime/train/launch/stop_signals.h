// Signals by which a run is asked to save and stop. A wish is told from its echoes: coreutils' timeout, terminals and
// mpirun send several signals for one wish.
#pragma once
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace zrt::runtime {

// The first three come from people, terminals and launchers. The others say that a run's time is nearly up: batch
// systems send them, and the kernel sends SIGXCPU each second from a limit of processor time on.
inline constexpr int stop_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU};

inline bool stops(int signal) {
  return std::find(std::begin(stop_signals), std::end(stop_signals), signal) != std::end(stop_signals);
}

// SIGHUP that was ignored at the start, as under nohup, stays so.
inline bool stays_ignored(int signal) {
  struct sigaction before {};
  return signal == SIGHUP && sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

inline void add_stop_signals(sigset_t& set) {
  for (const int signal : stop_signals) {
    if (!stays_ignored(signal)) sigaddset(&set, signal);
  }
}

enum class StopSignal { first, echo, second };

// Safe in a signal handler.
class StopSignals {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds echo_time{2};  // after the first; a signal from then on is meant as a second

  StopSignal note(int signal, Time now) {
    int64_t first = never;
    if (first_.compare_exchange_strong(first, now.time_since_epoch().count())) return StopSignal::first;
    if (signal == SIGUSR2 || signal == SIGXCPU) return StopSignal::echo;  // nobody sends these to kill
    return now.time_since_epoch() - Time::duration(first) < echo_time ? StopSignal::echo : StopSignal::second;
  }

 private:
  static constexpr int64_t never = INT64_MIN;
  std::atomic<int64_t> first_{never};  // when it came
  static_assert(std::atomic<int64_t>::is_always_lock_free);
};

}  // namespace zrt::runtime
