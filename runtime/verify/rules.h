// The rules of what an op may read, each for one kind of contents. A rule is told of every execution in program order:
// `read` before anything is written, `write` after all rules have read.
#pragma once
#include <map>

#include "runtime/verify/contents.h"
#include "runtime/verify/families.h"

namespace zrt::runtime::verification {

// Tokens, activations and what is saved come from the right op and are of the microbatch that reads them.
class ActivationRule {
 public:
  explicit ActivationRule(Walk& walk) : walk_(walk) {}
  void read();
  void end() const;

 private:
  void require_ahead(const Access& access) const;
  void require_port(const Access& access) const;
  void require_parts(const Access& access);
  void require_held(const Access& access) const;
  void require_holding(const Op& op) const;
  void require_positions(const Op& op) const;
  void require_group(const Op& op, Axes axes = Axis::tensor) const;
  void require_received(const Access& access, Role role) const;
  void require_emptied(const Access& access) const;
  void require_made(const Access& access, OpKind kind, uint32_t block, Role role) const;
  Walk& walk_;
  std::map<uint32_t, uint32_t> pieces_;  // by unit: an export tells this one next; 0 behind the last
};

// A block reads whole weights of its units as they are after the last update; so does an export. A whole copy that an
// update leaves behind is brought together again before it is read, in whichever program that is.
class WeightRule {
 public:
  explicit WeightRule(Walk& walk);
  void read();
  void write();
  void end() const;  // when all executions have been told

 private:
  bool is_kept(BufferId buffer) const;
  void require_current(const Access& access, uint32_t unit, bool whole);
  void gather();
  void update();

  Walk& walk_;
  std::vector<uint32_t> version_;   // by unit: updates so far
  std::vector<Execution> updated_;  // by unit
  std::vector<const Op*> left_by_;  // by buffer: the update of a program before that leaves a part of it stale
  std::vector<BufferId> stale_;     // what a refresh has to bring together
  std::vector<uint32_t> unit_of_;   // by buffer: of kept weights
  std::vector<const Op*> namer_;    // by buffer: the op that says so
};

// Every gradient is defined, summed over its backwards in one order, reduced once per window over all ranks, and what
// norms and updates read is the sum of all windows.
class GradRule {
 public:
  explicit GradRule(Walk& walk);
  void read();
  void write();
  void end() const;

 private:
  uint32_t windows() const { return walk_.layout.microbatches / walk_.layout.reduce_every; }
  void backward(size_t i);
  void reduce(size_t i);
  void gather(size_t i);
  void add_up(const Access& access, uint32_t unit, Summed as);
  Summed complete(uint32_t unit) const {
    const optimizer::Unit& of = walk_.layout.units.units[unit];
    return of.copied ? Summed::copies : !of.gradient_axes.within(data_axes) ? Summed::shares : Summed::all;
  }
  void require_sum(const Access& access, uint32_t unit, bool whole, Summed over);
  void require_dead(const Access& access) const;
  void require_unit(const Access& access, const Content& content, uint32_t unit) const;
  Spread reach(uint32_t unit) const;                // of what updates of a unit read
  std::string maker(const Content& content) const;  // the op that a gradient is of, maybe in the step before

  Walk& walk_;
  std::vector<BufferId> kept_;      // by unit, where a program finds the gradient of the step before and leaves its own
  std::vector<const Op*> left_by_;  // by buffer: the last op of a step that writes it
};

// An optimizer refines the whole of one unit, made of parts that were proposed for it, and an update reads what was
// made of its own unit's.
class RefineRule {
 public:
  explicit RefineRule(Walk& walk) : walk_(walk) {}
  void read();
  void write();

 private:
  void require(const Access& access, OpKind by, const std::vector<uint32_t>& units) const;

  Walk& walk_;
};

// An op reads, of a state that lies in several tiers, the copy that was changed last or one made of it. What was
// changed in a copy is evicted before the program ends. Transfers go from a tier to the next, on the lane of their
// direction.
class CopyRule {
 public:
  CopyRule(Walk& walk, const Families& families);
  void read();
  void write();
  void end() const;

 private:
  struct Latest {
    uint32_t version = 0;
    BufferId buffer = no_buffer;  // where it was made
    Execution made;               // the execution that made it
  };
  bool transfers() const;
  void check_transfer(const Access& from, const Access& to) const;

  Walk& walk_;
  const Families& families_;
  std::vector<uint32_t> held_;  // by buffer: the version that lies there
  std::vector<Latest> latest_;  // by family
};

}  // namespace zrt::runtime::verification
