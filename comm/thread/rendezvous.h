// The rendezvous of ranks that are threads. Between two arrivals members read each other's buffers in place, so a
// member that has to fail waits until no other member works; only then may its caller free its buffers. That wait is
// short because work never blocks.
//
// On GPUs (the place of the calling threads) a call is asynchronous: the threads meet as ever, but work is queued on
// their streams. With its arrival each rank publishes an event of its stream, and after it each rank's stream waits for
// the others' events, so what holds for host threads above holds for the streams. No thread waits for a GPU. Hence a
// time-out tells of ranks that did not call, never of a GPU that hangs: that shows where the executor synchronises.
// After a failure queued work may still read buffers; a caller may free them when the stream has come so far, which
// freeing memory of a GPU waits for by itself.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "core/stream.h"

namespace zrt::comm {

// Groups that end together share a room: one aborted for a reason ends all, so all wait on one condition.
struct Room {
  std::mutex mutex;
  std::condition_variable changed;
  std::string reason;  // not empty once aborted
};

class ThreadRendezvous final : public Rendezvous {
 public:
  ThreadRendezvous(std::string group, int size, std::chrono::milliseconds timeout, std::shared_ptr<Room> room);

  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& group() const override { return group_; }
  void open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) override;
  void work(int rank, int phase) override;
  void close(int rank) override;
  [[noreturn]] void fail(int rank, const std::string& reason) override;
  void abort(const std::string& reason) override;
  std::string reason() override;
  Counters counters(int rank) const override;
  std::vector<FlightRecord> flight_records(int rank) const override;

 private:
  struct Member {
    CollectiveCall call;
    FlightRecorder recorder;
    bool in_call = false, arrived = false, working = false;
    core::Event reached;  // of its stream, at its last arrival
  };
  enum class Moment : uint8_t { open, middle, close };
  using Lock = std::unique_lock<std::mutex>;

  core::Event mark() const;
  void arrive(int rank, Moment moment, core::Event reached, Lock& lock);
  void follow(int rank) const;
  void release(Moment moment);
  void stop_work(Member& member);
  void abort_locked(const std::string& reason);
  [[noreturn]] void leave(Member& member, Lock& lock);
  std::string timeout_report(int rank) const;

  const std::string group_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Room> room_;  // its mutex guards everything below too; calls are also read without it between
                                      // open and close
  std::vector<Member> members_;
  std::vector<const CollectiveCall*> calls_;  // of the members
  std::vector<core::Event> met_;  // what they had reached at the last rendezvous; read without the mutex until a rank's
                                  // next arrival
  uint64_t generation_ = 0;       // rendezvous held
  int arrived_ = 0, working_ = 0;
};

}  // namespace zrt::comm
