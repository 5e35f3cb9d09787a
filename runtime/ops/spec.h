// A table has a row of what zrt knows of each kind of op; passes, verifier, simulator and executor read it. A new kind
// is a name in OpKind, a file here with its row, and its name at the end of this file and in spec.cpp; what it means in
// a step is a rule of the verifier, which stays apart from this.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/block.h"
#include "runtime/cost/cost.h"

namespace zrt::runtime {

class OpCall;

// The number of buffers of a role that an op names.
enum class Count : uint8_t { one, optional, two, each_unit, some_units, any };

inline constexpr uint8_t may_read = 1 << static_cast<int>(Use::read), may_write = 1 << static_cast<int>(Use::write),
                         may_update = 1 << static_cast<int>(Use::update);

struct Operand {
  Role role;
  Count count;
  uint8_t uses;  // that are legal
};

// The side of the link on which an op needs what it names, if that is resident in another tier.
enum class Site : uint8_t {
  device,
  update,    // where the unit's update runs; what ranks share, on the device
  resident,  // copies from and to both sides of the link, but not files
};

// An op does this for the works of its row: brings what a later one reads, or takes away what an earlier one wrote.
enum class Travel : uint8_t { none, ahead, behind };

// The host hands this part of a run's state to an op's kernels as parameters: a recording of them holds while it is
// the same.
enum Parameter : uint8_t { takes_position = 1, takes_loss_scale = 2 };

// An op and where it is to run, for its cost.
struct CostCall {
  const ProgramSet& set;
  const Op& op;
  const Layout& layout;
  const Cluster& cluster;
};

struct OpSpec {
  OpKind kind;
  std::string_view name;
  std::vector<std::string_view> phases{};  // that it may stand in; empty: all
  std::vector<Operand> operands;
  void (*run)(const OpCall&);  // at core::place(), on the op's lane
  // One of two. Ops that communicate run on the lane of their group; they say what they move.
  OpCost (*cost)(const CostCall&) = nullptr;
  Volume (*volume)(const ProgramSet&, const Op&, const Layout&) = nullptr;

  std::optional<models::Mode> block{};  // runs a block with its weights, in this mode, on the compute lane
  bool of_microbatch = false;           // Op::microbatch means something
  bool works = false;                   // takes long beside the lanes that move things: a step is a row of these
  Travel travel = Travel::none;
  bool needs_host = false;                                  // while it runs: no recording of kernels can stand for it
  uint8_t parameters = 0;                                   // bits of Parameter
  Site site = Site::device;                                 // of its operands
  core::DType (*type)(const Layout&, const Op&) = nullptr;  // of the elements of units it gathers, sums or hands out

  bool communicates() const { return volume != nullptr; }
};

const OpSpec& spec(OpKind kind);
std::span<const OpSpec> op_specs();  // in the order of OpKind

inline std::string_view op_kind_name(OpKind kind) {
  return spec(kind).name;
}
// True for ops that run a block with its weights: forward, recompute, backward, evaluate, decode.
inline bool runs_block(OpKind kind) {
  return spec(kind).block.has_value();
}

// Throws ConfigError when the cluster has no rates for the run's type, and when a collective spans hosts but the
// cluster has no link between them.
OpCost op_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster);

// Rows use the functions below. This one counts the bytes of the slots that an op's accesses touch; with `use`, of
// those with this use.
double access_bytes(const ProgramSet& set, const Op& op, std::optional<Use> use = {});
double role_bytes(const ProgramSet& set, const Op& op, Role role);
// Returns which of the ranks that hold a unit refines the op's unit i.
int owner_of_refined(const Op& op, size_t i, int ranks);
// Says that a gather makes numbers of weights in few bits.
bool gathers_packed(const Op& op, const Layout& layout);
// Counts the bytes that every rank holds in the end.
Volume gathered_volume(const ProgramSet& set, const Op& op, const Layout& layout);
OpCost cost_at_memory(const CostCall& call, double bytes);  // of the host on its lane, else of the device
OpCost touched_bytes_cost(const CostCall& call);            // of all that it names
OpCost no_cost(const CostCall& call);                       // but for starting it
// OpSpec::type of ops on the weights that updates work on.
core::DType logical_type(const Layout& layout, const Op& op);

// The rows, by file.
std::vector<OpSpec> init_ops();      // init, load
std::vector<OpSpec> batch_ops();     // load_batch
std::vector<OpSpec> block_ops();     // forward, recompute, backward, evaluate, decode
std::vector<OpSpec> gather_ops();    // gather, gather_grad, gather_state
std::vector<OpSpec> reduce_ops();    // reduce_grad
std::vector<OpSpec> control_ops();   // begin, share_control, average, decide, decide_ahead
std::vector<OpSpec> update_ops();    // norm, sum, share_sums, fold, update
std::vector<OpSpec> refine_ops();    // propose, collect, refine, hand_out
std::vector<OpSpec> export_ops();    // export_state, snapshot
std::vector<OpSpec> transfer_ops();  // fetch, evict
std::vector<OpSpec> link_ops();      // send, receive, gather_received
std::vector<OpSpec> exchange_ops();  // exchange, gather_parts

}  // namespace zrt::runtime
