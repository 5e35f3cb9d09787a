// Device, Stream and Event. A stream runs its tasks in order and beside other streams; an event is the completion of
// everything queued before it. On the CPU a stream is a worker thread; on a GPU it will be a CUDA stream.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace zrt::core {

// Completion of a point in a stream. Copies share the state. A default-made event is complete.
class Event {
 public:
  bool done() const;
  void wait() const;  // blocks the calling thread; rethrows nothing: errors surface in Stream::synchronize

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

// One lane. Once a task throws, later tasks are skipped (their events still complete) until synchronize rethrows.
class Stream {
 public:
  // `threads` is the number of threads parallel_for uses inside tasks of this stream.
  explicit Stream(std::string name, int threads = 1);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void run(std::function<void()> task);  // queue; the captured state must live until the task has run
  void wait(Event event);                // later tasks of this stream start after `event`
  Event record();                        // completes when everything queued so far has run
  void synchronize();                    // blocks until the queue is empty; rethrows the first error
  const std::string& name() const { return name_; }

 private:
  void work(int threads);
  std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace zrt::core
