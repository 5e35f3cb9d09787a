// Portions are what a collective moves: the copies and ordered sums by which one rank fills its buffers from those of
// all. Every rank can list the portions of every other, so a rank that cannot read a peer's memory knows what it will
// be sent, and in which order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/call.h"

namespace zrt::comm {

using Calls = std::span<const CollectiveCall* const>;  // of all ranks, in rank order

struct Portion {
  static constexpr int everyone = -1;
  int from;           // the rank that is copied from, or everyone: the sum over all ranks
  size_t buffer;      // the source: index of the range, in send_recv of the message in the sender's list
  size_t offset;      // bytes from its start
  std::byte* target;  // in the reader's process only
  int64_t count;      // elements of the call's type
  bool accumulate;
};

// all_reduce gives rank r the elements [slice_begin(r), slice_begin(r + 1)).
int64_t slice_begin(int64_t count, int size, int rank);

// A collective is a sequence of phases. Within one, no rank writes what another reads.
int phases(CollectiveKind kind);
std::vector<Portion> portions_of(Calls calls, int reader, int phase);

// Bytes that a rank receives in a phase from ranks for which `counts` holds.
uint64_t received_bytes(Calls calls, int reader, int phase, const std::function<bool(int rank)>& counts);

// Returns the first byte of rank `from`'s data of a portion, given its call.
const std::byte* source_of(const CollectiveCall& call, const Portion& portion);

// comm::reduce at the calling thread's place: on a GPU queued on its stream.
void add_up(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, const float* before = nullptr);

// Does `count` elements of a portion from element `begin` on, at the calling thread's place: on a GPU queued on its
// stream. `sources` are of these elements, one per rank for a sum.
void move(const CollectiveCall& call, const Portion& portion, std::span<const void* const> sources, int64_t begin,
          int64_t count);

}  // namespace zrt::comm
