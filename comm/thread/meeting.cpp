#include "comm/thread/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace zrt::comm {
namespace {
constexpr size_t reported_records = 5;  // per rank in the report of a time-out
}

Meeting::Meeting(std::string group, int size, std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      // A year stands for "never", because a deadline must be representable.
      timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365))),
      members_(static_cast<size_t>(size)) {}

void Meeting::open(int rank, const std::function<Traffic(Call&)>& fill) {
  Lock lock(mutex_);
  Member& member = members_[static_cast<size_t>(rank)];
  if (member.in_call) {
    throw core::CommError(
        fmt::format("rank {} of group {} started a collective while {} still runs on another thread; a communicator "
                    "serves one lane at a time, so give each lane its own group",
                    rank, group_, describe(member.call)));
  }
  if (!reason_.empty()) throw core::CommError(reason_);
  const Traffic traffic = fill(member.call);
  member.in_call = true;
  member.recorder.start(member.call.kind, member.call.label, traffic.elements, traffic.bytes);
  if (auto error = argument_error(member.call, rank, size())) {
    abort_locked(fmt::format("group {}: rank {} called {} with {}", group_, rank, describe(member.call), *error));
    leave(member, lock);
  }
  arrive(rank, Stage::open, lock);
}

void Meeting::meet(int rank) {
  Lock lock(mutex_);
  arrive(rank, Stage::middle, lock);
}

void Meeting::close(int rank) {
  Lock lock(mutex_);
  arrive(rank, Stage::close, lock);
  Member& member = members_[static_cast<size_t>(rank)];
  member.recorder.finish();
  member.in_call = false;
}

void Meeting::fail(int rank, const std::string& reason) {
  Lock lock(mutex_);
  abort_locked(reason);
  leave(members_[static_cast<size_t>(rank)], lock);
}

void Meeting::arrive(int rank, Stage stage, Lock& lock) {
  Member& member = members_[static_cast<size_t>(rank)];
  stop_work(member);
  if (!reason_.empty()) leave(member, lock);
  member.arrived = true;
  if (++arrived_ == size()) {
    release(stage);
  } else {
    const uint64_t generation = generation_;
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    const auto awaited = [&] { return generation_ != generation || !reason_.empty(); };
    if (!changed_.wait_until(lock, deadline, awaited)) abort_locked(timeout_report(rank));
  }
  if (!reason_.empty()) leave(member, lock);
}

// The last member has arrived: let all go on.
void Meeting::release(Stage stage) {
  if (stage == Stage::open) {
    std::vector<const Call*> calls;
    for (const Member& member : members_) calls.push_back(&member.call);
    if (auto error = mismatch(calls)) {
      abort_locked(fmt::format("group {}: {}", group_, *error));
      return;
    }
  }
  arrived_ = 0;
  for (Member& member : members_) {
    member.arrived = false;
    member.working = stage != Stage::close;
  }
  working_ = stage == Stage::close ? 0 : size();
  ++generation_;
  changed_.notify_all();
}

void Meeting::stop_work(Member& member) {
  if (!std::exchange(member.working, false)) return;
  if (--working_ == 0 && !reason_.empty()) changed_.notify_all();
}

void Meeting::abort_locked(const std::string& reason) {
  if (!reason_.empty()) return;
  reason_ = reason.empty() ? fmt::format("group {} was aborted without a reason", group_) : reason;
  changed_.notify_all();
}

// Throws once nobody reads buffers any more.
void Meeting::leave(Member& member, Lock& lock) {
  stop_work(member);
  changed_.wait(lock, [&] { return working_ == 0; });
  member.in_call = false;
  throw core::CommError(reason_);
}

std::string Meeting::timeout_report(int rank) const {
  std::string missing, waiting;
  for (size_t r = 0; r < members_.size(); ++r) {
    std::string& list = members_[r].arrived ? waiting : missing;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", r);
  }
  const Member& self = members_[static_cast<size_t>(rank)];
  std::string text = fmt::format(
      "group {} of {} ranks: {} (call {} of rank {}) timed out after {} ms; missing ranks: {}; waiting ranks: {}. Look "
      "for an earlier error or a longer path on the missing ranks, or raise run.timeout_seconds. Last calls:\n",
      group_, members_.size(), describe(self.call), self.recorder.sequence(), rank, timeout_.count(), missing, waiting);
  for (size_t r = 0; r < members_.size(); ++r) {
    text += fmt::format("  rank {}:\n{}", r, members_[r].recorder.format(reported_records));
  }
  return text;
}

void Meeting::abort(const std::string& reason) {
  Lock lock(mutex_);
  abort_locked(reason);
}

Counters Meeting::counters(int rank) const {
  Lock lock(mutex_);
  return members_[static_cast<size_t>(rank)].recorder.counters();
}

std::vector<FlightRecord> Meeting::flight_records(int rank) const {
  Lock lock(mutex_);
  return members_[static_cast<size_t>(rank)].recorder.records();
}

}  // namespace zrt::comm
