// When a run counts as hung: no sign of life for longer than its longest pause so far lets expect.
#pragma once
#include <algorithm>
#include <chrono>

#include "runtime/train/launch/supervisor.h"

namespace zrt::runtime {

// All times are the caller's, of a clock that nobody sets.
class HangWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A caller that looks no more often than this was itself stopped, and knows nothing of that while.
  static constexpr Seconds longest_turn{4};

  explicit HangWatch(const LaunchOptions& options) : options_(options) {}

  // A child was started; it has not shown that it lives.
  void start(Time now) {
    sign_ = turn_ = now;
    alive_ = false;
  }

  // One look at the run, several in a second: whether there was a sign of life since the last, and the longest step
  // that the run has told of.
  void look(Time now, bool sign, Seconds longest_step) {
    if (now - turn_ > longest_turn) sign_ += now - turn_;
    turn_ = now;
    longest_pause_ = std::max(longest_pause_, longest_step);
    if (!sign) return;
    if (alive_) longest_pause_ = std::max<Seconds>(longest_pause_, now - sign_);
    sign_ = now;
    alive_ = true;
  }

  // Without a sign of life for so long the child is taken for hung.
  Seconds limit() const {
    const Seconds running = options_.hang_timeout > Seconds(0)
                                ? options_.hang_timeout
                                : std::max(options_.shortest_hang_timeout, 5 * longest_pause_);
    return alive_ ? running : std::max(options_.start_timeout, running);
  }
  bool hung() const { return turn_ - sign_ > limit(); }

 private:
  const LaunchOptions& options_;
  Time sign_, turn_;          // of the last sign of life; of the last look
  Seconds longest_pause_{0};  // between two signs of life, of all children
  bool alive_ = false;        // the child has shown that it lives
};

}  // namespace zrt::runtime
