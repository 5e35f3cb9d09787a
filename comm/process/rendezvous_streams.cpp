// The watch of streams that wait for the words of other ranks.
#include <fmt/format.h>

#include "comm/process/rendezvous.h"

namespace zrt::comm {
namespace {

// A stream's wait is reported so long behind the time-out, in which hosts name who does not come to a call; and so long
// behind twice the time-out where all wait for each other.
constexpr auto hosts_speak = std::chrono::milliseconds(500), others_speak = std::chrono::milliseconds(3000);

}  // namespace

void ProcessRendezvous::look_after_streams() {
  end_with_ended();
  // A rank that stands in one group keeps this one waiting in all that it belongs to.
  if (const std::string reason = membership_.job ? membership_.job->reason() : ""; !reason.empty())
    return end_here(reason);
  end_with_standing();
}

// The ranks whose streams have not come as far as this one's, which waits for them.
std::vector<int> ProcessRendezvous::behind() const {
  std::vector<int> ranks;
  const uint32_t own = membership_.segment->reached_now(member_);
  for (int r = 0; r < size(); ++r) {
    const int member = membership_.peers[static_cast<size_t>(r)].member;
    if (member >= 0 && static_cast<int32_t>(membership_.segment->reached_now(member) - own) < 0) ranks.push_back(r);
  }
  return ranks;
}

// A rank whose host does not come to a call is for await() to name, which knows it first. One that itself waits, in
// this group or another one, is not to blame, and the time in which it does so is not its own: whoever waits for the
// one that stands speaks. Only where all wait for each other for twice the time, each speaks of whom it waits for.
void ProcessRendezvous::end_with_standing() {
  const std::vector<int> late = behind();
  std::vector<uint32_t> words;
  for (const Peer& peer : membership_.peers)
    words.push_back(peer.member < 0 ? 0 : membership_.segment->reached_now(peer.member));
  if (membership_.job && !late.empty()) membership_.job->set_waiting(member_, true);
  std::vector<int> to_blame = late;
  if (membership_.job) {
    std::erase_if(to_blame,
                  [&](int r) { return membership_.job->is_waiting(membership_.peers[static_cast<size_t>(r)].member); });
  }
  const auto now = std::chrono::steady_clock::now();
  const auto stood = standing_.look(now, !to_blame.empty(), words),
             waited = stream_wait_.look(now, !late.empty(), words);
  if (waited >= 2 * membership_.timeout + others_speak && to_blame.empty()) {
    to_blame = late;
  } else if (stood < membership_.timeout + hosts_speak) {
    return;
  }
  std::string who;
  for (const int r : to_blame) {
    who += fmt::format("{}rank {} (process {})", who.empty() ? "" : ", ", r,
                       membership_.peers[static_cast<size_t>(r)].pid);
  }
  end_here(
      fmt::format("group {}: the GPU of rank {}{}{} ms, in which it waited for that of {} (counted inside the group). "
                  "Look at that process and its GPU, or raise run.timeout_seconds. Last calls:\n{}",
                  group(), membership_.rank, timed_out, membership_.timeout.count(), who, last_calls_here()));
  if (membership_.job) membership_.job->abort(membership_.segment->reason());
}

// Streams that wait for a rank behind this one go on, behind the reason: whoever goes on can see it.
void ProcessRendezvous::end_here(const std::string& reason) {
  membership_.segment->abort(reason);
  const uint32_t own = membership_.segment->reached_now(member_);
  for (const int r : behind()) membership_.segment->release(membership_.peers[static_cast<size_t>(r)].member, own);
}

void ProcessRendezvous::end_with_ended() {
  for (const int rank : watch_.all_ended()) {
    end_here(fmt::format(
        "group {}: rank {} (process {}) has ended while rank {} had work with it. Look for its own message, "
        "or for what killed it (memory, a signal). Last calls:\n{}",
        group(), rank, membership_.peers[static_cast<size_t>(rank)].pid, membership_.rank, last_calls_here()));
  }
}

}  // namespace zrt::comm
