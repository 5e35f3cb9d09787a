// A Program is a training step written down: ops, the lanes they run on, the buffers they touch and the ops they wait
// for. Passes make it; the verifier, the memory plan and the executor read it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/anatomy.h"
#include "runtime/program/buffer.h"
#include "runtime/program/groups.h"

namespace zrt::runtime {

using OpId = uint32_t;

// first + iteration · step, for op fields that change from turn to turn of a repeated segment.
struct Index {
  uint32_t first = 0, step = 0;
  uint32_t at(uint32_t iteration) const { return first + iteration * step; }
  Index modulo(uint32_t n) const { return {first % n, step % n}; }  // at(i) of it is at(i), modulo n
};

enum class Use : uint8_t {
  read,
  write,   // defines every byte; nothing of the former contents is read
  update,  // reads and writes
};

// Says what a buffer is to an op. Roles that come once per unit appear in the order of Op::units.
enum class Role : uint8_t {
  tokens,
  targets,
  positions,
  input,
  output,
  d_output,
  d_input,
  saved,
  recomputed,  // what a backward reads of a recompute beside `saved`
  held,        // what the weight half of a backward reads of its input half
  port,        // between parts of a block, in the order of ports
  d_port,      // the gradient of a port
  workspace,
  cache,
  weight,
  local_grad,
  grad,
  master,
  state,  // the nth state kind of the optimizer
  sums,   // what ranks share of an optimizer's sums
  work,   // an optimizer's work buffer
  full_state,
  all_parts,  // of a piece of a unit, of all ranks that share the work of its blocks
  partial,    // between the two levels of a collective: the shards of all groups for one member of them
  snapshot,
  staging,  // in the host tier: a batch on its way to a GPU: tokens, targets, positions
  control,
  loads,  // of experts
  shares,
  copied,    // what a fetch or evict moves from
  copy,      // what a fetch or evict moves to
  proposal,  // a rank's part of what an optimizer refines
  refined,   // the whole of what an optimizer refines, on one rank
  packed,    // weights in few bits, of all ranks
};
inline constexpr size_t role_count = static_cast<size_t>(Role::packed) + 1;
std::string_view role_name(Role role);

// A microbatch's slot of a buffer is its number modulo the buffer's slots, or what the buffer's table says.
struct Access {
  BufferId buffer = no_buffer;
  Role role = Role::workspace;
  Use use = Use::read;
  Index slot;        // as it is, or the microbatch; with a table, the place in it
  uint8_t port = 0;  // of a port: which of the block's
  uint32_t slot_of(const Buffer& of, uint32_t iteration) const {
    const uint32_t number = slot.at(iteration);
    return of.slot_table.empty() ? number % of.slots : of.slot_table[number];
  }
};

enum class OpKind : uint8_t {
  init,
  load,
  begin,
  load_batch,
  forward,
  backward,
  evaluate,
  decode,
  gather,
  reduce_grad,
  gather_grad,
  norm,
  share_control,
  decide,
  average,
  sum,         // of an optimizer, on this rank's shard
  share_sums,  // brings all ranks' sums together
  fold,        // of an optimizer, on all ranks alike
  update,
  gather_state,
  export_state,
  snapshot,
  recompute,        // a forward again, for the backward that follows
  fetch,            // a copy towards where an op needs it, from the tier behind
  evict,            // a copy back to where it is resident
  decide_ahead,     // what updates follow that do not follow the decision of their own step
  propose,          // of an optimizer that refines: a rank's part of what it would add
  collect,          // brings proposals together, each unit's on one rank
  refine,           // works on the whole of a unit on that rank
  hand_out,         // gives all ranks their parts of it again
  send,             // over the boundary between two stages of a pipeline: an output, or the gradient of an input
  receive,          // takes what a neighbour sends: an input, or the gradient of an output
  exchange,         // of a port between ranks that share the work of a block, or of its gradient
  gather_parts,     // of a unit's weights, from those ranks
  gather_received,  // the shares of what a stage receives, of those ranks
};
inline constexpr size_t op_kind_count = static_cast<size_t>(OpKind::gather_received) + 1;
inline bool transfers(OpKind kind) {
  return kind == OpKind::fetch || kind == OpKind::evict;
}

// `host`: what is computed on the host beside `compute`, on what lies there.
enum class LaneKind : uint8_t { compute, to_device, to_host, io, comm, host };
// True for lanes whose work a step is for: what the others do is better hidden behind it.
inline bool computing(LaneKind kind) {
  return kind == LaneKind::compute || kind == LaneKind::host;
}
struct Lane {
  LaneKind kind;
  std::string group;  // of comm lanes: Group::name
  std::string name() const;
};

using GroupId = uint8_t;

struct Op {
  OpKind kind = OpKind::begin;
  uint8_t lane = 0;
  GroupId group = 0;  // of the program set, where the op communicates
  std::string name;
  uint32_t block = 0;
  models::Parts parts = models::all_parts;                   // of the block, that the op runs
  models::Half half = models::Half::both;                    // of a backward
  bool again = false;                                        // of an exchange: it repeats one of the forward
  uint8_t port = 0;                                          // of an exchange: which of the block's ports
  models::Collective collective = models::Collective::none;  // of an exchange: what completes the port
  Index microbatch;                                          // within the step
  uint32_t round = 0;                                        // of an optimizer's sums; the piece of an export's unit
  // The rank that has the first of the units that are refined, among those that hold a unit; the next one has the
  // second.
  uint32_t first_owner = 0;
  // The row of works that an op belongs to, a transfer with the op that it is for: 1 for updates that run between
  // blocks, as soon as they can, else 0. Neither row waits for what is moved for the other.
  uint8_t row = 0;
  bool fixed = false;               // of a fetch: it stands where it has to, however far ahead others may come
  std::vector<uint32_t> units;      // of gather, reduce, update …; a block's units for forward and backward
  std::vector<uint8_t> accumulate;  // per unit: 1 adds to the gradient, 0 defines it
  // The bytes of this rank's shard, where a fetch or evict moves only that; 0: all of the buffer. On a side that holds
  // the whole unit the shard lies at its place.
  uint64_t shard_bytes = 0;
  std::vector<Access> accesses;
  std::vector<OpId> waits;  // ops of other lanes: their latest execution so far must have finished

  // True for ops that make gradients of parameters.
  bool makes_gradients() const { return kind == OpKind::backward && half != models::Half::input; }
};

// `count` ops from `first`, run `repeat` times; iteration i evaluates every Index at i.
struct Segment {
  OpId first = 0, count = 0;
  uint32_t repeat = 1;
};

struct Program {
  std::string phase;
  std::vector<Op> ops;
  std::vector<Segment> segments;
};

// The programs of one rank. All ranks of a stage run the same set.
struct ProgramSet {
  std::vector<Buffer> buffers;
  std::vector<Lane> lanes;
  std::vector<Group> groups;
  std::vector<Program> programs;
  std::array<uint64_t, core::tier_count> arena_bytes{};  // by tier: the largest phase
  uint64_t bytes(core::Tier tier) const { return arena_bytes[static_cast<size_t>(tier)]; }
  bool has(std::string_view phase) const;
  const Program& program(std::string_view phase) const;  // throws core::ProgramError when there is none
  BufferId add(Buffer buffer);
  uint8_t lane(LaneKind kind, std::string_view group = {});  // its number; made on first use
  // Both throw core::ProgramError when there is none. Pairs of stages are found by name.
  GroupId find_group(Axes axes) const;
  GroupId find_group(std::string_view name) const;
  const Group& group(const Op& op) const { return groups[op.group]; }
  std::string xxh3() const;  // of all that is in it: equal for equal sets alone
};

// Calls visit(op id, iteration) in program order, each segment at most `turns` times.
template <class Visit>
void for_each_execution(const Program& program, uint32_t turns, Visit visit) {
  for (const Segment& segment : program.segments) {
    for (uint32_t i = 0; i < segment.repeat && i < turns; ++i) {
      for (OpId id = segment.first; id < segment.first + segment.count; ++id) visit(id, i);
    }
  }
}

}  // namespace zrt::runtime
