#include "runtime/engine/rank_threads.h"

#include <algorithm>

namespace zrt::runtime {

RankThreads::~RankThreads() {
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::start(std::function<void()> body) {
  const std::lock_guard lock(mutex_);
  const size_t index = errors_.size();
  errors_.emplace_back();
  ++running_;
  threads_.emplace_back([this, index, body = std::move(body)] {
    std::exception_ptr error;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard own(mutex_);
    errors_[index] = error;
    --running_;
    changed_.notify_all();
  });
}

bool RankThreads::running() const {
  const std::lock_guard lock(mutex_);
  return running_ > 0;
}

bool RankThreads::failed() const {
  return std::any_of(errors_.begin(), errors_.end(), [](const auto& error) { return error != nullptr; });
}

std::vector<std::exception_ptr> RankThreads::join(std::chrono::milliseconds grace, const StuckHook& stuck) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0 || failed(); });
    if (!changed_.wait_for(lock, grace, [&] { return running_ == 0; }) && stuck) {
      const auto first =
          *std::find_if(errors_.begin(), errors_.end(), [](const auto& error) { return error != nullptr; });
      lock.unlock();
      try {
        std::rethrow_exception(first);
      } catch (const std::exception& error) {
        stuck(error);
      }
    }
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return std::move(errors_);
}

}  // namespace zrt::runtime
