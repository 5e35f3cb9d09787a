// Do the calls of all ranks make one collective?
#include <fmt/format.h>

#include <algorithm>

#include "comm/call.h"

namespace zrt::comm {
namespace {

// The first thing in which two calls differ, or "".
std::string difference(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.kind != b.kind) return "the operation";
  if (a.kind == CollectiveKind::send_recv) return "";  // paired message by message instead
  if (a.from != b.from) return "the element type";
  if (a.to != b.to) return "the type of the result";
  if (a.root != b.root) return fmt::format("the root ({} against {})", a.root, b.root);
  if (a.ranges.size() != b.ranges.size()) {
    return fmt::format("the number of ranges ({} against {})", a.ranges.size(), b.ranges.size());
  }
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    if (a.ranges[i].count != b.ranges[i].count) {
      return fmt::format("the count of range {} ({} against {})", i, a.ranges[i].count, b.ranges[i].count);
    }
    if (a.ranges[i].accumulate != b.ranges[i].accumulate) {
      return fmt::format("the accumulation of range {} ({} against {})", i, a.ranges[i].accumulate,
                         b.ranges[i].accumulate);
    }
  }
  return a.label == b.label ? "" : "the label";
}

std::string both(const CollectiveCall& a, size_t a_rank, const CollectiveCall& b, size_t b_rank,
                 const std::string& what) {
  return fmt::format(
      "rank {} called {} while rank {} called {}; they differ in {}. All ranks of a group must make the same calls in "
      "the same order: compare the programs of these two ranks",
      a_rank, describe(a), b_rank, describe(b), what);
}

// Every message of `from`'s sends to `to` has its receive, in order and size.
std::optional<std::string> unpaired(std::span<const CollectiveCall* const> calls, size_t from, size_t to) {
  const std::vector<Message>&sends = calls[from]->sends, &receives = calls[to]->receives;
  for (size_t i = 0;; ++i) {
    const Message* send = find_message(sends, static_cast<int>(to), i);
    const Message* receive = find_message(receives, static_cast<int>(from), i);
    if (!send && !receive) return std::nullopt;
    if (send && receive && send->bytes == receive->bytes) continue;
    const std::string sent = send ? fmt::format("{} B sent", send->bytes) : "nothing sent";
    const std::string expected = receive ? fmt::format("{} B expected", receive->bytes) : "nothing expected";
    return both(*calls[from], from, *calls[to], to,
                fmt::format("message {} from rank {} to rank {}: {}, {}", i, from, to, sent, expected));
  }
}

}  // namespace

std::optional<std::string> mismatch(std::span<const CollectiveCall* const> calls) {
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    const std::string what = difference(*calls[0], *calls[rank]);
    if (!what.empty()) return both(*calls[0], 0, *calls[rank], rank, what);
  }
  if (calls[0]->kind != CollectiveKind::send_recv) return std::nullopt;
  for (size_t from = 0; from < calls.size(); ++from) {
    for (size_t to = 0; to < calls.size(); ++to) {
      if (auto error = unpaired(calls, from, to)) return error;
    }
  }
  return std::nullopt;
}

}  // namespace zrt::comm
