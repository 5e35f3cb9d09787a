#include "comm/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "comm/reduce.h"

namespace zrt::comm {
namespace {

constexpr size_t shown = 8;  // ranges or messages spelt out in a description

std::string describe_ranges(const CollectiveCall& call) {
  std::string text;
  for (size_t i = 0; i < call.ranges.size() && i < shown; ++i) {
    text += fmt::format("{}{}", i ? " + " : "", call.ranges[i].count);
    if (call.ranges[i].accumulate) text += " (accumulated)";
  }
  if (call.ranges.size() > shown) text += fmt::format(" + {} more ranges", call.ranges.size() - shown);
  return text.empty() ? "no ranges" : text + " elements";
}

std::string describe_messages(const std::vector<Message>& messages, const char* direction) {
  std::string text;
  for (size_t i = 0; i < messages.size() && i < shown; ++i) {
    text += fmt::format("{}{} B {} rank {}", i ? ", " : "", messages[i].bytes, direction, messages[i].peer);
  }
  if (messages.size() > shown) text += fmt::format(", {} more", messages.size() - shown);
  return text.empty() ? "nothing" : text;
}

// Half-open byte ranges that share a byte.
bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  const std::less<const std::byte*> before;
  return a_bytes > 0 && b_bytes > 0 && before(x, y + b_bytes) && before(y, x + a_bytes);
}

std::optional<std::string> range_error(const CollectiveCall& call, const CallRange& range, int rank, int size) {
  if (range.count < 0) return fmt::format("a count of {} elements; legal is 0 or more", range.count);
  if (range.count == 0) return std::nullopt;
  const bool two_buffers = call.kind != CollectiveKind::all_reduce && call.kind != CollectiveKind::broadcast;
  if (!range.target || (two_buffers && !range.source)) {
    return fmt::format("a null pointer for {} elements; pass a buffer or a count of 0", range.count);
  }
  if (!two_buffers) return std::nullopt;
  const size_t count = static_cast<size_t>(range.count), ranks = static_cast<size_t>(size);
  const bool whole_source = call.kind != CollectiveKind::all_gather,
             whole_target = call.kind != CollectiveKind::reduce_scatter;
  const size_t source_bytes = count * core::dtype_size(call.from) * (whole_source ? ranks : 1);
  const size_t target_bytes = count * core::dtype_size(call.to) * (whole_target ? ranks : 1);
  if (!overlap(range.source, source_bytes, range.target, target_bytes)) return std::nullopt;
  const auto* source = static_cast<const std::byte*>(range.source);
  const auto* target = static_cast<const std::byte*>(range.target);
  const size_t own = static_cast<size_t>(rank) * count * core::dtype_size(call.from);
  const bool same_type = call.from == call.to;
  if (call.kind == CollectiveKind::reduce_scatter && same_type && target == source + own) return std::nullopt;
  if (call.kind == CollectiveKind::all_gather && source == target + own) return std::nullopt;
  if (call.kind == CollectiveKind::all_to_all) {
    return std::string("source and target that overlap; all_to_all needs two separate buffers");
  }
  return fmt::format(
      "source and target that overlap; the shard may lie in the whole buffer only at the place of rank {} "
      "({} bytes from its start), and only when the types are equal",
      rank, own);
}

std::optional<std::string> used_error(const CollectiveCall& call, int size) {
  if (call.used.empty()) return std::nullopt;
  if (call.used.size() != static_cast<size_t>(size)) {
    return fmt::format(
        "a list of used elements for {} blocks; legal are {}, one from each rank, or none for whole blocks",
        call.used.size(), size);
  }
  for (size_t r = 0; r < call.used.size(); ++r) {
    if (call.used[r] < 0 || call.used[r] > call.ranges[0].count) {
      return fmt::format("{} used elements in the block from rank {}; legal are 0 to {}, the elements of a block",
                         call.used[r], r, call.ranges[0].count);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} \"{}\"", collective_kind_name(call.kind), call.label);
  switch (call.kind) {
    case CollectiveKind::barrier:
      return text;
    case CollectiveKind::send_recv:
      return text + fmt::format(" sending {} and receiving {}", describe_messages(call.sends, "to"),
                                describe_messages(call.receives, "from"));
    case CollectiveKind::reduce_scatter:
      return text + fmt::format(" of {} per rank, {} to {}", describe_ranges(call), core::dtype_name(call.from),
                                core::dtype_name(call.to));
    case CollectiveKind::broadcast:
      return text +
             fmt::format(" of {}, {}, from root {}", describe_ranges(call), core::dtype_name(call.from), call.root);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return text + fmt::format(" of {} per rank, {}", describe_ranges(call), core::dtype_name(call.from));
    case CollectiveKind::all_reduce:
      break;
  }
  return text + fmt::format(" of {}, {}", describe_ranges(call), core::dtype_name(call.from));
}

std::optional<std::string> argument_error(const CollectiveCall& call, int rank, int size) {
  const bool sums = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter;
  if (sums && !can_reduce(call.from, call.to)) {
    return fmt::format("a sum of {} into {}; legal are fp32, bf16 and fp16, each into itself or into fp32",
                       core::dtype_name(call.from), core::dtype_name(call.to));
  }
  if (call.root < 0 || call.root >= size) return fmt::format("root {}; legal are 0 to {}", call.root, size - 1);
  for (const CallRange& range : call.ranges) {
    if (auto error = range_error(call, range, rank, size)) return error;
  }
  if (auto error = used_error(call, size)) return error;
  for (const auto* messages : {&call.sends, &call.receives}) {
    for (const Message& message : *messages) {
      if (message.peer < 0 || message.peer >= size) {
        return fmt::format("a message for rank {}; legal are 0 to {}", message.peer, size - 1);
      }
      if (message.bytes > 0 && !message.data) return fmt::format("a null pointer for {} bytes", message.bytes);
    }
  }
  return std::nullopt;
}

const Message* find_message(std::span<const Message> messages, int peer, size_t index) {
  for (const Message& message : messages) {
    if (message.peer == peer && index-- == 0) return &message;
  }
  return nullptr;
}

}  // namespace zrt::comm
