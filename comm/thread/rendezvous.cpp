#include "comm/thread/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/portions.h"
#include "core/error.h"

namespace zrt::comm {
namespace {
constexpr size_t reported_records = 5;  // per rank in the report of a time-out
}

ThreadRendezvous::ThreadRendezvous(std::string group, int size, std::chrono::milliseconds timeout,
                                   std::shared_ptr<Room> room)
    : group_(std::move(group)),
      // A year stands for "never", because a deadline must be representable.
      timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365))),
      room_(std::move(room)),
      members_(static_cast<size_t>(size)),
      met_(static_cast<size_t>(size)) {
  for (const Member& member : members_) calls_.push_back(&member.call);
}

void ThreadRendezvous::open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) {
  core::Event reached = mark();
  Lock lock(room_->mutex);
  Member& member = members_[static_cast<size_t>(rank)];
  if (member.in_call) {
    throw core::CommError(busy_text(group_, rank, member.call));
  }
  if (!room_->reason.empty()) throw core::CommError(room_->reason);
  const Traffic traffic = fill(member.call);
  member.in_call = true;
  member.recorder.start(member.call.kind, member.call.label, traffic.elements, traffic.bytes);
  if (auto error = argument_error(member.call, rank, size())) {
    abort_locked(fmt::format("group {}: rank {} called {} with {}", group_, rank, describe(member.call), *error));
    leave(member, lock);
  }
  arrive(rank, Moment::open, std::move(reached), lock);
}

void ThreadRendezvous::work(int rank, int phase) {
  if (phase > 0) {
    core::Event reached = mark();
    Lock lock(room_->mutex);
    arrive(rank, Moment::middle, std::move(reached), lock);
  }
  follow(rank);
  const CollectiveCall& own = members_[static_cast<size_t>(rank)].call;
  std::vector<const void*> sources;
  for (const Portion& portion : portions_of(calls_, rank, phase)) {
    sources.clear();
    for (int r = 0; r < size(); ++r) {
      if (portion.from != Portion::everyone && portion.from != r) continue;
      sources.push_back(source_of(members_[static_cast<size_t>(r)].call, portion));
    }
    move(own, portion, sources, 0, portion.count);
  }
}

void ThreadRendezvous::close(int rank) {
  core::Event reached = mark();
  Lock lock(room_->mutex);
  arrive(rank, Moment::close, std::move(reached), lock);
  follow(rank);
  Member& member = members_[static_cast<size_t>(rank)];
  member.recorder.finish(0);
  member.in_call = false;
}

void ThreadRendezvous::fail(int rank, const std::string& reason) {
  Lock lock(room_->mutex);
  abort_locked(reason);
  leave(members_[static_cast<size_t>(rank)], lock);
}

// Returns an event behind all that the calling thread's stream has been given; it is complete on the CPU, whose work is
// done when it arrives.
core::Event ThreadRendezvous::mark() const {
  const core::Place& here = core::place();
  if (here.device == core::DeviceKind::cpu || size() == 1) return {};
  return here.stream->record();
}

// Lets what the calling thread does from here on come after all that the others had done when they met.
void ThreadRendezvous::follow(int rank) const {
  for (int r = 0; r < size(); ++r) {
    const core::Event& event = met_[static_cast<size_t>(r)];
    if (r == rank || !event.state()) continue;
    if (core::place().device == core::DeviceKind::cpu) {
      event.wait();
    } else {
      core::place().stream->wait(event);
    }
  }
}

void ThreadRendezvous::arrive(int rank, Moment moment, core::Event reached, Lock& lock) {
  Member& member = members_[static_cast<size_t>(rank)];
  stop_work(member);
  if (!room_->reason.empty()) leave(member, lock);
  member.arrived = true;
  member.reached = std::move(reached);
  if (++arrived_ == size()) {
    release(moment);
  } else {
    const uint64_t generation = generation_;
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    const auto awaited = [&] { return generation_ != generation || !room_->reason.empty(); };
    if (!room_->changed.wait_until(lock, deadline, awaited)) abort_locked(timeout_report(rank));
  }
  if (!room_->reason.empty()) leave(member, lock);
}

// The last member has arrived: let all go on.
void ThreadRendezvous::release(Moment moment) {
  if (moment == Moment::open) {
    if (auto error = mismatch(calls_)) {
      abort_locked(fmt::format("group {}: {}", group_, *error));
      return;
    }
  }
  arrived_ = 0;
  for (size_t r = 0; r < members_.size(); ++r) {
    members_[r].arrived = false;
    members_[r].working = moment != Moment::close;
    met_[r] = std::move(members_[r].reached);
  }
  working_ = moment == Moment::close ? 0 : size();
  ++generation_;
  room_->changed.notify_all();
}

void ThreadRendezvous::stop_work(Member& member) {
  if (!std::exchange(member.working, false)) return;
  if (--working_ == 0 && !room_->reason.empty()) room_->changed.notify_all();
}

void ThreadRendezvous::abort_locked(const std::string& reason) {
  if (!room_->reason.empty()) return;
  room_->reason = reason;
  room_->changed.notify_all();
}

// Throws once nobody reads buffers any more.
void ThreadRendezvous::leave(Member& member, Lock& lock) {
  stop_work(member);
  room_->changed.wait(lock, [&] { return working_ == 0; });
  member.in_call = false;
  throw core::CommError(room_->reason);
}

std::string ThreadRendezvous::timeout_report(int rank) const {
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    if (!members_[static_cast<size_t>(r)].arrived) missing.push_back(r);
  }
  const Member& self = members_[static_cast<size_t>(rank)];
  std::string text = timeout_text(group_, rank, size(), self.call, self.recorder.sequence(), timeout_, missing);
  for (size_t r = 0; r < members_.size(); ++r) {
    text += fmt::format("  rank {}:\n{}", r, members_[r].recorder.format(reported_records));
  }
  return text;
}

std::string ThreadRendezvous::reason() {
  const Lock lock(room_->mutex);
  return room_->reason;
}

void ThreadRendezvous::abort(const std::string& reason) {
  Lock lock(room_->mutex);
  abort_locked(reason);
}

Counters ThreadRendezvous::counters(int rank) const {
  Lock lock(room_->mutex);
  return members_[static_cast<size_t>(rank)].recorder.counters();
}

std::vector<FlightRecord> ThreadRendezvous::flight_records(int rank) const {
  Lock lock(room_->mutex);
  return members_[static_cast<size_t>(rank)].recorder.records();
}

}  // namespace zrt::comm
