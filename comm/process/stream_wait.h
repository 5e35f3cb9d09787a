// Adds up how long a stream has waited for the same ranks.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace zrt::comm {

class StreamWait {
 public:
  using Clock = std::chrono::steady_clock;

  // `words`: what the streams of the group have reached, `waits`: whether this one waits. Returns the time since the
  // words last changed, as far as looks at them show: the time between two counts two seconds at most, for this process
  // may have been stopped meanwhile.
  Clock::duration look(Clock::time_point now, bool waits, std::vector<uint32_t> words) {
    constexpr Clock::duration longest_gap = std::chrono::seconds(2);
    const bool same = waits && words == words_;
    stood_ = same ? stood_ + std::min(now - last_look_, longest_gap) : Clock::duration{};
    last_look_ = now;
    words_ = std::move(words);
    return stood_;
  }

 private:
  std::vector<uint32_t> words_;
  Clock::time_point last_look_{};
  Clock::duration stood_{};
};

}  // namespace zrt::comm
