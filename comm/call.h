// A rank's call of a collective, in a form that ranks can compare and report.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace zrt::comm {

// One contiguous range of a call; `count` is per rank (reduce_scatter, all_gather, all_to_all) or whole.
struct CallRange {
  const void* source;
  void* target;
  int64_t count;
  bool accumulate;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  DType from = DType::u8, to = DType::u8;
  int root = 0;
  std::string label;
  std::vector<CallRange> ranges;
  std::vector<int64_t> used;  // elements of each rank's block that an all_to_all brings here; empty: all of them
  std::vector<Message> sends, receives;
};

// "all_gather "gather h.3" of 128 + 64 elements, bf16": for messages.
std::string describe(const CollectiveCall& call);

// Returns what is wrong with this rank's call by itself: a negative count, a null pointer, a type that cannot be
// summed, buffers that overlap in a way the operation does not allow, a wrong list of what is used, a root or a peer
// outside the group.
std::optional<std::string> argument_error(const CollectiveCall& call, int rank, int size);

// Returns what keeps the calls of all ranks (in rank order) from being one collective, and names both calls and both
// ranks. Labels must agree too, except for send_recv: ranks that gather two equal shards in different order would swap
// them silently.
std::optional<std::string> mismatch(std::span<const CollectiveCall* const> calls);

// The `index`-th message for `peer` in the list, or null.
const Message* find_message(std::span<const Message> messages, int peer, size_t index);

}  // namespace zrt::comm
