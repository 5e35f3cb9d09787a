// A thread that looks twice a second for processes that have ended.
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
      : thread_([look = std::move(look)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          while (!stop.stop_requested()) {
            look();
            never.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace zrt::comm
