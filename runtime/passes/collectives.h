// The ops by which units are gathered and gradients reduced, on the levels that a layout has (Grouping).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/passes/draft.h"

namespace zrt::runtime {

// The group that an op communicates in, and its lane.
void place_in(ProgramSet& set, Op& op, Axes group);
void place_in(ProgramSet& set, Op& op, std::string_view group);  // of pairs of stages

// Cuts `units` into buckets of at most `limit` elements (at least one unit each).
std::vector<std::vector<uint32_t>> buckets(const Layout& layout, const std::vector<uint32_t>& units, int64_t limit);
std::string units_name(const Layout& layout, const std::vector<uint32_t>& units);

// Emits collectives of one program. Buffers between two levels are made once per unit and purpose.
class Collectives {
 public:
  Collectives(ProgramSet& set, const Layout& layout) : set_(set), layout_(layout) {}

  // Brings each unit of the bucket together in full[i], from the shard in part[i], or with no_buffer from the rank's
  // own shard in full[i]. `type` is of their elements. With `keep`, what comes into a group stays there (hpZ): the
  // first gather of a unit in the program goes between groups, the others do not.
  struct Gather {
    OpKind kind = OpKind::gather;
    std::string name;
    uint32_t block = 0;
    std::vector<uint32_t> units;
    std::vector<BufferId> part, full;
    core::DType type = core::DType::f32;
    bool keep = false;
  };
  void gather(std::vector<Op>& ops, const Gather& what);

  // Sums local[i], in slot[i], of all ranks into the shard in grad[i]; equal buffers: in place. With `accumulate`
  // grad[i] is added to. `last`: of the step.
  struct Reduce {
    std::vector<uint32_t> units;
    std::vector<BufferId> local, grad;
    std::vector<Index> slot;
    bool accumulate = false, last = true;
  };
  void reduce(std::vector<Op>& ops, const Reduce& what);

  ProgramSet& set() { return set_; }
  // A transient buffer of this name, made on first use.
  BufferId buffer(const std::string& name, core::Category category, uint64_t bytes);

 private:
  Op make(OpKind kind, Axes group, std::string name, const std::vector<uint32_t>& units);
  BufferId partial(std::string_view purpose, uint32_t unit, core::DType type);

  ProgramSet& set_;
  const Layout& layout_;
  std::map<std::string, BufferId> buffers_;
  std::map<uint32_t, BufferId> kept_;  // by unit
};

// Returns the gather of what every rank holds whole and has its own shard of, in full[unit].
Collectives::Gather gather_in_place(const Layout& layout, OpKind kind, const char* name,
                                    const std::vector<uint32_t>& units, const std::vector<BufferId>& full,
                                    core::DType type, uint32_t block = 0);

}  // namespace zrt::runtime
