// The contents of the slots of all buffers while one walks a program's executions in program order: whose weights, of
// which version; which microbatches' gradients, how far reduced. The rules for weights, gradients and activations share
// it.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/verify/execution.h"
#include "runtime/verify/part_order.h"

namespace zrt::runtime::verification {

inline constexpr uint32_t none = ~0u;

inline bool gathers(OpKind kind) {  // shards of units
  return kind == OpKind::gather || kind == OpKind::gather_grad || kind == OpKind::gather_state;
}

// True for ops whose work depends on a step's decision: the update of a unit and what precedes it.
inline bool follows_decision(OpKind kind) {
  return kind == OpKind::update || kind == OpKind::propose || kind == OpKind::sum || kind == OpKind::fold;
}

// Says how much of a unit is there, of what the step means by it.
enum class Spread : uint8_t {
  own,    // this rank's shard
  part,   // the shards that one member of a group brings in from all groups
  whole,  // everything
};

// The ranks that a gradient has been summed over: those of its stage, and then those of another stage that has a copy.
enum class Summed : uint8_t { rank, inner, all, copies, shares };

struct Content {
  Execution made;               // the latest execution that wrote all of it
  Execution changed;            // the latest execution that wrote any of it
  Role role = Role::workspace;  // under which it was made
  uint32_t unit = none;         // of weights and gradients
  Spread spread = Spread::own;
  uint32_t version = 0;  // weights: updates of the unit in this program that it has seen
  // Gradients have these, down to `microbatch`.
  Summed summed = Summed::rank;
  bool used = false;                    // handed on by a reduction or an update
  bool adds = false;                    // the latest backward adds to what was there
  uint32_t backwards = 0, windows = 0;  // summed so far: calls on this rank, windows after a reduction
  uint32_t window = 0;                  // the latest
  uint32_t block = 0, microbatch = 0;   // the latest
  bool unread = false;                  // a gather brought it, and nobody has read it since
  bool together = false;                // of what came from another stage: the shares of all ranks
};

// One walk: the program, where it is, and what slots hold.
class Walk {
 public:
  Walk(const ProgramSet& set, const Program& program, const Layout& layout, const std::vector<PartOrder>& orders);

  const ProgramSet& set;
  const Program& program;
  const Layout& layout;
  const std::vector<PartOrder>& orders;  // by block
  Execution now;

  const Op& op() const { return program.ops[now.op]; }
  uint32_t microbatch() const { return op().microbatch.at(now.turn); }
  // The slot that it touches, numbered through the slots of all buffers.
  size_t slot(const Access& access) const {
    return first_[access.buffer] + access.slot_of(set.buffers[access.buffer], now.turn);
  }
  size_t slots() const { return contents_.size(); }
  Content& at(const Access& access) { return contents_[slot(access)]; }
  Content& at(BufferId buffer, uint32_t slot) { return contents_[first_[buffer] + slot]; }
  const std::string& unit_name(uint32_t unit) const { return layout.units.units[unit].name; }
  std::string among(Axes axes) const;  // "among the ranks of 'tp'"
  // The nth access of the op with this role; null when there is none.
  const Access* find(Role role, size_t nth);

  // "program 'step' is not safe: 'forward h.3' (turn 2) uses buffer 'x' but `what`".
  [[noreturn]] void fail(const Access& access, const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;
  std::string name(Execution execution) const { return verification::name(program, execution); }

 private:
  std::vector<uint32_t> first_;  // by buffer
  std::vector<Content> contents_;
  OpId indexed_ = ~0u;  // whose accesses by_role_ holds
  std::array<std::vector<const Access*>, role_count> by_role_;
};

// The spread of what this op makes of parts of a unit that reach as far as `from`; own where it moves nothing
// that makes sense, as when only half of a gather on two levels has happened.
Spread gathered(const Walk& walk, uint32_t unit, Spread from);

}  // namespace zrt::runtime::verification
