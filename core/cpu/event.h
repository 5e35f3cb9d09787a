// Completion of a point in a CPU stream.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "core/stream.h"

namespace zrt::core {

// Returns seconds of the machine's steady clock.
inline double steady_seconds(std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now()) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

class CpuEvent : public Event::State {
 public:
  bool done() const override {
    std::lock_guard lock(mutex_);
    return done_;
  }
  void wait() const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  double seconds_since(const State& earlier) const override {
    return std::chrono::duration<double>(time_ - static_cast<const CpuEvent&>(earlier).time_).count();
  }
  double seconds(const Anchor&) const override { return steady_seconds(time_); }

  // Calls on the thread that completes the event, or here if it is complete. `call` must neither throw nor wait.
  void then(std::function<void()> call) {
    {
      std::lock_guard lock(mutex_);
      if (!done_) {
        calls_.push_back(std::move(call));
        return;
      }
    }
    call();
  }
  void finish(bool timed) {
    std::vector<std::function<void()>> calls;
    {
      std::lock_guard lock(mutex_);
      if (timed) time_ = std::chrono::steady_clock::now();
      done_ = true;
      calls.swap(calls_);
    }
    changed_.notify_all();
    for (const auto& call : calls) call();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace zrt::core
