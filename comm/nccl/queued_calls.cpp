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

std::optional<std::string> QueuedCalls::standing_still(Clock::time_point now, std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  calls_.remove_if([](const Call& call) { return call.end.done(); });
  const Clock::duration since = std::min<Clock::duration>(now - last_look_, longest_gap);
  last_look_ = now;
  for (Call& call : calls_) {
    if (!call.begin.done()) continue;
    if (call.seen) call.stood += since;
    call.seen = true;
    if (call.stood >= limit) return call.what;
  }
  return std::nullopt;
}

}  // namespace zrt::comm
