// Collectives over one group of ranks. A call blocks the lane it runs on (never the host) until every member has made
// the same call and the data has arrived; completion towards other lanes is the event the executor records after it.
// On a GPU (the calling thread's place) the call is queued on the stream: it returns once every member has made it, and
// what the stream runs afterwards finds the data.
//
// Sums run in rank order with fp32 accumulation and one final rounding, so results depend neither on the transport nor
// on timing. Counts are elements. Buffers may be reused as soon as the call returns, on a GPU by later work of the
// stream.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace zrt::comm {

using core::DType;

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send_recv,
  barrier
};
inline constexpr size_t collective_kind_count = 7;
std::string_view collective_kind_name(CollectiveKind kind);

// One contiguous range of a collective. Several ranges make one collective (a bucket): one rendezvous, one record.
struct ReduceRange {
  const void* source;  // size() * shard elements of `from`, shard after shard in rank order; this rank's contribution
  void* target;     // shard elements of `to`: the sum of this rank's shard; may lie in `source` at the own shard when
                    // the types are equal
  int64_t shard;    // elements per rank
  bool accumulate;  // add to what `target` holds instead of overwriting it: in fp32, rounded once (twice in NCCL's own
                    // sums)
};
struct GatherRange {
  const void* source;  // shard elements: this rank's part; may lie in `target` at the own shard
  void* target;        // size() * shard elements
  int64_t shard;
};
// One message of a grouped exchange; bytes may be zero.
struct Message {
  int peer;
  void* data;
  uint64_t bytes;
};

// The record of one collective: it is kept in a ring per communicator and dumped on failure.
struct FlightRecord {
  uint64_t sequence = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  std::string label;   // operation of the program, e.g. "reduce h.3 mb 2"
  uint64_t bytes = 0;  // bytes this rank received from others
  bool finished = false;
  double start_seconds = 0, end_seconds = 0;  // since the group was made
};

struct Counters {
  uint64_t calls[collective_kind_count] = {};
  // Elements received from other ranks, the (N-1)/N of the closed forms; messages have no type: bytes for send_recv.
  uint64_t elements[collective_kind_count] = {};
  uint64_t bytes[collective_kind_count] = {};
  // Ranks of other hosts sent these. Sums along a line of hosts send partials in fp32, which may be more than `bytes`.
  uint64_t bytes_between_hosts[collective_kind_count] = {};
  Counters& operator+=(const Counters& other);
  Counters& operator-=(const Counters& other);
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // within the group
  virtual int size() const = 0;
  virtual const std::string& group() const = 0;  // "dp", "tp", …

  // Works in place: every rank ends with the sum in `data`.
  virtual void all_reduce(void* data, int64_t count, DType type, std::string_view label) = 0;
  virtual void reduce_scatter(std::span<const ReduceRange> ranges, DType from, DType to, std::string_view label) = 0;
  virtual void all_gather(std::span<const GatherRange> ranges, DType type, std::string_view label) = 0;
  // Block p of `source` (count elements) goes to rank p; block p of `target` comes from rank p. `used`, where it is not
  // empty, says how many of the first elements of each rank's block of `target` hold something (size() entries, 0 to
  // count, by source rank): a transport may leave the rest of a block as it was, and counts only what it moves. Ranks
  // need not agree on their lists. NCCL moves and counts whole blocks: its ranks do not learn each other's lists. Other
  // work on a GPU keeps the numbers with which it was queued, also where a recording runs again.
  virtual void all_to_all(const void* source, void* target, int64_t count, DType type, std::string_view label,
                          std::span<const int64_t> used = {}) = 0;
  virtual void broadcast(void* data, int64_t count, DType type, int root, std::string_view label) = 0;
  // All messages of the group form one exchange; each send must have its receive of equal size on the peer.
  virtual void send_recv(std::span<const Message> sends, std::span<const Message> receives, std::string_view label) = 0;
  virtual void barrier(std::string_view label) = 0;

  // Memory of the rank's GPU, nccl_staging_bytes(size()) of it, for a group that NCCL connects; before the first call
  // on the GPU, and it must outlive the communicator. Other groups need none.
  virtual void lend(std::byte* /*staging*/) {}
  // Ends every pending and later call of all members with a CommError holding `reason`.
  virtual void abort(const std::string& reason) = 0;
  // Throws CommError where the group was ended: streams of a GPU then came through calls whose bytes never came. Any
  // thread.
  virtual void require_alive() const = 0;
  virtual Counters counters() const = 0;
  virtual std::vector<FlightRecord> flight_records() const = 0;  // oldest first
};

}  // namespace zrt::comm
