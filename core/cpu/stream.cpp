#include "core/cpu/stream.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/cpu/event.h"
#include "core/parallel.h"

namespace zrt::core {
namespace {

class CpuStream : public Stream {
 public:
  CpuStream(std::string name, int threads)
      : Stream(DeviceKind::cpu, std::move(name)), thread_([this, threads] { work(threads); }) {}
  ~CpuStream() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void run(std::function<void()> task) override {
    queue([this, task = std::move(task)] {
      if (!error_) task();
    });
  }

  void wait(const Event& event) override {
    if (event.done()) return;
    queue([event] { event.wait(); });
  }

  Event record() override { return record(false); }
  Event record_time() override { return record(true); }

  void synchronize() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return tasks_.empty() && !busy_; });
    if (error_) {
      std::exception_ptr error = std::exchange(error_, nullptr);
      lock.unlock();
      std::rethrow_exception(error);
    }
  }

 private:
  Event record(bool timed) {
    auto state = std::make_shared<CpuEvent>();
    queue([state, timed] { state->finish(timed); });
    return Event(state);
  }

  void queue(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

  void work(int threads) {
    pthread_setname_np(pthread_self(), name().substr(0, 15).c_str());
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

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Stream> make_cpu_stream(std::string name, int threads) {
  return std::make_unique<CpuStream>(std::move(name), threads);
}

}  // namespace zrt::core
