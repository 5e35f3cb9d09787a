// A thread that looks five times a second, and when it is woken, for processes that have ended.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace zrt::comm {

class EndWatch {
 public:
  // The objects that `look` uses must outlive this.
  explicit EndWatch(std::function<void()> look)
      : look_(std::move(look)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}
  // Lets the thread look at once, also where this is destroyed right behind. Any thread; returns without waiting.
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_all();
  }

 private:
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    do {
      woken_ = false;
      lock.unlock();
      look_();
      lock.lock();
      changed_.wait_for(lock, stop, std::chrono::milliseconds(200), [this] { return woken_; });
    } while (woken_ || !stop.stop_requested());
  }

  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool woken_ = false;
  std::jthread thread_;  // ends first
};

}  // namespace zrt::comm
