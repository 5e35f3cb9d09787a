#include "core/stream.h"

#include <pthread.h>

#include <utility>

#include "core/parallel.h"

namespace zrt::core {

struct Event::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

bool Event::done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Event::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
}

Stream::Stream(std::string name, int threads) : name_(std::move(name)), thread_([this, threads] { work(threads); }) {}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Stream::run(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back([this, task = std::move(task)] {
      if (!error_) task();
    });
  }
  wake_.notify_one();
}

void Stream::wait(Event event) {
  if (event.done()) return;
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back([event = std::move(event)] { event.wait(); });
  }
  wake_.notify_one();
}

Event Stream::record() {
  Event event;
  event.state_ = std::make_shared<Event::State>();
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back([state = event.state_] {
      {
        std::lock_guard state_lock(state->mutex);
        state->done = true;
      }
      state->changed.notify_all();
    });
  }
  wake_.notify_one();
  return event;
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return tasks_.empty() && !busy_; });
  if (error_) {
    std::exception_ptr error = std::exchange(error_, nullptr);
    lock.unlock();
    std::rethrow_exception(error);
  }
}

void Stream::work(int threads) {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  set_threads(threads);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;  // stopped, and everything queued has run
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    task = nullptr;
    lock.lock();
    busy_ = false;
    if (thrown && !error_) error_ = thrown;
    if (tasks_.empty()) idle_.notify_all();
  }
}

}  // namespace zrt::core
