#include "comm/nccl/queued_calls.h"

#include <algorithm>
#include <utility>

namespace zrt::comm {
namespace {
constexpr auto longest_gap = std::chrono::seconds(2);
}

void QueuedCalls::add(std::string what, core::Event begin, core::Event end) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({std::move(what), std::move(begin), std::move(end)});
}

QueuedCalls::Standing QueuedCalls::look(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  calls_.remove_if([](const Queued& call) { return call.end.done(); });
  const Clock::duration since = std::min<Clock::duration>(now - last_look_, longest_gap);
  last_look_ = now;
  Standing longest;
  for (Queued& call : calls_) {
    if (!call.begin.done()) continue;
    if (call.seen) call.stood += since;
    call.seen = true;
    if (longest.call.empty() || call.stood > longest.stood) longest = {call.what, call.stood};
  }
  return longest;
}

}  // namespace zrt::comm
