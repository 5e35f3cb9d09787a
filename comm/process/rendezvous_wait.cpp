// Waiting for other processes, and what ends a wait.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "comm/process/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

using std::chrono::steady_clock;

constexpr int64_t first_nap = 20000, longest_nap = 1000000, local_nap = 50000000;  // nanoseconds
constexpr auto watch_interval = std::chrono::milliseconds(20);
constexpr auto farewell = std::chrono::seconds(1);  // for telling other machines of an abort
constexpr size_t records_per_rank = 5;              // per rank in a report

}  // namespace

void ProcessRendezvous::await(const Ready& ready, const Awaited& awaited) {
  Segment& segment = *membership_.segment;
  auto now = steady_clock::now();
  auto deadline = now + membership_.timeout, next_watch = now + watch_interval;
  const auto start = now;
  int64_t nap = std::clamp(usual_wait_ / 2, first_nap, longest_nap);
  bool slept = false;
  bool extended = false, someone_ended = false;
  while (true) {
    const uint32_t bell = segment.bell(member_);
    push_frames();
    if (ready()) break;
    look_for_aborts();
    if (!segment.reason().empty()) leave();
    segment.set_waiting(member_, true);
    if (membership_.job) membership_.job->set_waiting(member_, true);
    now = steady_clock::now();
    if (now >= next_watch) {
      next_watch = now + watch_interval;
      membership_.arenas->close_ended();
      const int ended = watch_.ended();
      // Its last frames may have come just now: look once more before judging.
      if (ended >= 0 && someone_ended) {
        fail(membership_.rank,
             fmt::format("group {}: rank {} (process {}) has ended while rank {} waits in {} (call {}). Look for its "
                         "own message, or for what killed it (memory, a signal). Last calls:\n{}",
                         group(), ended, membership_.peers[static_cast<size_t>(ended)].pid, membership_.rank,
                         describe(own_), recorder_.sequence(), last_calls()));
      }
      someone_ended = ended >= 0 && awaited(ended);
    }
    if (now >= deadline) {
      bool certain = false;
      const std::vector<int> lost = missing(awaited, certain);
      if (certain || extended) fail(membership_.rank, timeout_report(lost));
      // Another rank may know better who is missing: let it speak first.
      deadline = now + std::min<std::chrono::milliseconds>(membership_.timeout / 5, std::chrono::seconds(1));
      extended = true;
    }
    segment.sleep(member_, bell, has_remote_ ? nap : local_nap);
    nap = std::min(2 * nap, longest_nap);
    slept = true;
  }
  segment.set_waiting(member_, false);
  if (slept) usual_wait_ = (3 * usual_wait_ + (steady_clock::now() - start) / std::chrono::nanoseconds(1)) / 4;
}

// Only channels from other machines carry aborts; looking at them also keeps their data moving.
void ProcessRendezvous::look_for_aborts() {
  for (Peer& peer : membership_.peers) {
    if (peer.member >= 0) continue;
    const std::optional<Frame> frame = peer.channel->receive();
    if (frame && frame->kind == FrameKind::abort) take_abort(*frame);
  }
}

// The report of a time-out has the last calls of its own machine only: add those of this one, once.
void ProcessRendezvous::take_abort(const Frame& frame) {
  const std::string reason(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size());
  membership_.segment->abort(reason);
  if (reason.find(timed_out) == std::string::npos || !membership_.segment->claim()) return;
  fmt::print(stderr, "group {} was ended by another machine. Last calls here:\n{}", group(), last_calls_here());
}

// The ranks that keep this one waiting. Those of this machine that wait in this group are not to blame, and those that
// wait in another one only where nobody else is: as stages of a pipeline wait for each other. `certain` when no other
// rank can know more.
std::vector<int> ProcessRendezvous::missing(const Awaited& awaited, bool& certain) const {
  std::vector<int> all, elsewhere, to_blame;
  bool blames_own_machine = false;
  certain = true;
  for (int r = 0; r < size(); ++r) {
    if (r == membership_.rank || !awaited(r)) continue;
    const int member = membership_.peers[static_cast<size_t>(r)].member;
    all.push_back(r);
    if (member >= 0 && membership_.segment->is_waiting(member)) continue;
    if (member >= 0 && membership_.job && membership_.job->is_waiting(member)) {
      elsewhere.push_back(r);
      continue;
    }
    to_blame.push_back(r);
    blames_own_machine = blames_own_machine || member >= 0;
    certain = certain && member >= 0;
  }
  certain = certain && !to_blame.empty();
  // It is not known who waits on other machines.
  if (!blames_own_machine) to_blame.insert(to_blame.end(), elsewhere.begin(), elsewhere.end());
  std::sort(to_blame.begin(), to_blame.end());
  return to_blame.empty() ? all : to_blame;
}

std::string ProcessRendezvous::timeout_report(const std::vector<int>& missing) const {
  return timeout_text(group(), membership_.rank, size(), own_, recorder_.sequence(), membership_.timeout, missing) +
         last_calls();
}

std::string ProcessRendezvous::last_calls() const {
  std::string text = last_calls_here();
  for (int r = 0; r < size(); ++r) {
    if (membership_.peers[static_cast<size_t>(r)].member >= 0) continue;
    const RemoteCall& last = exchanges_[static_cast<size_t>(r)].remote;
    text += fmt::format("  rank {}, on another machine, last call seen here:\n", r);
    text += last.sequence == 0 ? "    no call yet\n" : fmt::format("    #{} {}\n", last.sequence, describe(last.call));
  }
  return text;
}

std::string ProcessRendezvous::last_calls_here() const {
  std::string text;
  for (int r = 0; r < size(); ++r) {
    const Peer& peer = membership_.peers[static_cast<size_t>(r)];
    if (peer.member < 0) continue;
    std::vector<FlightRecord> records = membership_.segment->records(peer.member);
    if (records.size() > records_per_rank) {
      records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(records_per_rank));
    }
    text += fmt::format("  rank {} (process {}):\n{}", r, peer.pid, recorder_.format(records));
  }
  return text;
}

std::string ProcessRendezvous::own_calls() const {
  const std::lock_guard lock(mutex_);
  return recorder_.format(records_per_rank);
}

void ProcessRendezvous::fail(int, const std::string& reason) {
  membership_.segment->abort(reason);
  leave();
}

void ProcessRendezvous::abort(const std::string& reason) {
  membership_.segment->abort(reason);
  const std::lock_guard lock(mutex_);
  if (!in_call_) send_aborts(reason);  // else the call's thread does
}

std::string ProcessRendezvous::reason() {
  const std::lock_guard lock(mutex_);
  try {
    if (!in_call_) look_for_aborts();
  } catch (const core::CommError&) {
    // Another machine's rank may have ended because its work was done: the next call with it finds out.
  }
  return membership_.segment->reason();
}

void ProcessRendezvous::leave() {
  membership_.segment->set_waiting(member_, false);
  for (Exchange& exchange : exchanges_) exchange.out.clear();
  end_call();
  // Another process may be writing the reason right now; should it die of it, there is none.
  const auto deadline = steady_clock::now() + farewell;
  while (membership_.segment->reason().empty() && steady_clock::now() < deadline) std::this_thread::yield();
  const std::string reason = membership_.segment->reason();
  throw core::CommError(reason.empty() ? fmt::format("group {} was aborted without a reason", group()) : reason);
}

void ProcessRendezvous::end_call() {
  const std::lock_guard lock(mutex_);
  in_call_ = false;
  const std::string reason = membership_.segment->reason();
  if (!reason.empty()) send_aborts(reason);
}

// Best effort: a machine that cannot be told runs into its deadline.
void ProcessRendezvous::send_aborts(const std::string& reason) {
  if (std::exchange(aborts_sent_, true)) return;
  const auto bytes = std::as_bytes(std::span(reason)).first(std::min(reason.size(), frame_bytes));
  std::vector<Channel*> left;
  for (Peer& peer : membership_.peers) {
    if (peer.member < 0) left.push_back(peer.channel.get());
  }
  const auto deadline = steady_clock::now() + farewell;
  std::vector<Channel*> sent = left;
  while (!left.empty() && steady_clock::now() < deadline) {
    std::erase_if(left, [&](Channel* channel) {
      try {
        return channel->send(FrameKind::abort, bytes);
      } catch (const core::CommError&) {
        return true;  // it has ended, and the others are yet to be told
      }
    });
    if (!left.empty()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  auto unsent = [](Channel* channel) { return !channel->flushed(); };
  while (std::any_of(sent.begin(), sent.end(), unsent) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace zrt::comm
