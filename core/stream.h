// Stream and Event. A stream runs its tasks in order and beside other streams; an event is the completion of
// everything queued before it. On the CPU a stream is a worker thread; on a GPU it is a CUDA stream, and a task is a
// function that queues work on it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/device.h"

namespace zrt::core {

struct Anchor;

// Completion of a point in a stream. Copies share the state. A default-made event is complete.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() const = 0;
    virtual void wait() const = 0;
    // Returns the seconds from `earlier`, of the same device, to this one; both must be complete and have been made by
    // record_time.
    virtual double seconds_since(const State& earlier) const = 0;
    virtual double seconds(const Anchor& anchor) const = 0;
  };
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool done() const { return !state_ || state_->done(); }
  // Blocks the calling thread. Errors of tasks surface in Stream::synchronize; here and in done() only a fault of the
  // device does, behind which no event ever completes: core::Error.
  void wait() const {
    if (state_) state_->wait();
  }
  double seconds_since(const Event& earlier) const { return state_->seconds_since(*earlier.state_); }
  // When it completed, of the machine's steady clock, so that events of all devices can be compared: a CPU's are exact,
  // those of a GPU as exact as the anchor, which must be of the same GPU. Made by record_time, as is the anchor's.
  double seconds(const Anchor& anchor) const { return state_->seconds(anchor); }
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// A moment of a stream that is known on the machine's steady clock, too.
struct Anchor {
  Event event;
  double seconds = 0;
};

// One lane. Once a task throws, later tasks are skipped (their events still complete) until synchronize rethrows.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues a task; the captured state must live until it has run. Inside it, place() is this stream's. A CPU stream
  // runs it on its thread, a CUDA stream calls it at once.
  virtual void run(std::function<void()> task) = 0;
  // Later tasks of this stream start after `event`, of any device. Never blocks the calling thread. While work is
  // recorded (core::record), a CUDA stream refuses events of CPU streams with core::Error.
  virtual void wait(const Event& event) = 0;
  virtual Event record() = 0;       // completes when everything queued so far has run
  virtual Event record_time() = 0;  // the same, and remembers when that was
  virtual void synchronize() = 0;   // blocks until the queue is empty; rethrows the first error
  const std::string& name() const { return name_; }
  DeviceKind device() const { return device_; }

 protected:
  Stream(DeviceKind device, std::string name) : device_(device), name_(std::move(name)) {}

 private:
  DeviceKind device_;
  std::string name_;
};

// `threads` is the number of threads parallel_for uses inside tasks of a CPU stream.
std::unique_ptr<Stream> make_stream(DeviceKind device, std::string name, int threads = 1);

// Waits for everything queued on the stream; what time it is then. A few microseconds late on a GPU.
Anchor make_anchor(Stream& stream);

}  // namespace zrt::core
