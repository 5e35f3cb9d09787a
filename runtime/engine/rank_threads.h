// Threads that work together, one for each local rank. When one has failed the others cannot go on: they end as soon as
// they notice, unless one is stuck in a disk or a callback, which no thread can be freed from.
#pragma once
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zrt::runtime {

// Called with the error of the first thread that failed when another does not end. A program should report it and end
// itself; if this returns, the thread is waited for without limit.
using StuckHook = std::function<void(const std::exception& error)>;

class RankThreads {
 public:
  RankThreads() = default;
  ~RankThreads();  // waits for all
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  void start(std::function<void()> body);
  bool running() const;
  // Waits for all; once one has thrown, for `grace` before `stuck` (may be empty) is called. Returns what each threw.
  std::vector<std::exception_ptr> join(std::chrono::milliseconds grace, const StuckHook& stuck);

 private:
  bool failed() const;  // under the lock
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
  size_t running_ = 0;
};

}  // namespace zrt::runtime
