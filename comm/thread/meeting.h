// Where the ranks of a thread group meet: calls are published, compared, and walked through in step.
//
// A call is: open → (work between meetings) → close. Between two meetings members read each other's buffers, so a
// member that has to fail waits until no other member works; only then may its caller free its buffers. That wait is
// short because work never blocks.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/flight_recorder.h"

namespace zrt::comm {

class Meeting {
 public:
  Meeting(std::string group, int size, std::chrono::milliseconds timeout);

  // Publishes the call that `fill` writes, with what it will receive, and meets the others. Afterwards every call is
  // known to match and may be read until close. Throws CommError.
  struct Traffic {
    uint64_t elements = 0, bytes = 0;
  };
  void open(int rank, const std::function<Traffic(Call&)>& fill);
  void meet(int rank);   // in the middle of a call
  void close(int rank);  // the last meeting; counts the call
  // Ends the call of a member whose work threw: the others fail with `reason`.
  [[noreturn]] void fail(int rank, const std::string& reason);

  const Call& call(int rank) const { return members_[static_cast<size_t>(rank)].call; }
  const std::string& group() const { return group_; }
  int size() const { return static_cast<int>(members_.size()); }

  void abort(const std::string& reason);
  Counters counters(int rank) const;
  std::vector<FlightRecord> flight_records(int rank) const;

 private:
  struct Member {
    Call call;
    FlightRecorder recorder;
    bool in_call = false, arrived = false, working = false;
  };
  enum class Stage : uint8_t { open, middle, close };
  using Lock = std::unique_lock<std::mutex>;

  void arrive(int rank, Stage stage, Lock& lock);
  void release(Stage stage);
  void stop_work(Member& member);
  void abort_locked(const std::string& reason);
  [[noreturn]] void leave(Member& member, Lock& lock);
  std::string timeout_report(int rank) const;

  const std::string group_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;  // guards everything below; calls are also read without it between open and close
  std::condition_variable changed_;
  std::vector<Member> members_;
  uint64_t generation_ = 0;  // meetings held
  int arrived_ = 0, working_ = 0;
  std::string reason_;  // not empty once aborted
};

}  // namespace zrt::comm
