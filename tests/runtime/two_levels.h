// Rewrites the programs of a set so that every gather and every reduction of a block's units happens on two levels,
// between groups of ranks and inside them: an oracle for checks that must not depend on how the passes write it.
#pragma once
#include "runtime/compile.h"
#include "tests/runtime/mutate.h"

namespace zrt::testing {

class TwoLevels {
 public:
  TwoLevels(runtime::ProgramSet& set, runtime::Layout& layout, int inner) : set_(set), layout_(layout) {
    layout.groups.inner = inner;
    layout.groups.hierarchical = true;
    inner_lane_ = lane("dp.inner");
    outer_lane_ = lane("dp.outer");
  }

  void rewrite(runtime::Program& program) {
    for (runtime::OpId id = 0; id < program.ops.size(); ++id) {
      const runtime::Op& op = program.ops[id];
      const bool gather = op.kind == runtime::OpKind::gather && op.accesses.front().role == runtime::Role::weight;
      const bool reduce = op.kind == runtime::OpKind::reduce_grad && op.accesses.size() == 2 * op.units.size();
      if (gather || reduce) split(program, id++, gather);
    }
  }

 private:
  uint8_t lane(const char* group) {
    set_.lanes.push_back({runtime::LaneKind::comm, group});
    return static_cast<uint8_t>(set_.lanes.size() - 1);
  }

  // The op that is there becomes the second half; the first half goes in front of it. The second waits for the first,
  // and the first for the second's last execution, which may still be reading the parts.
  void split(runtime::Program& program, runtime::OpId id, bool gather) {
    runtime::Op first = program.ops[id];
    first.name += gather ? " between groups" : " inside groups";
    first.span = gather ? runtime::Span::outer : runtime::Span::inner;
    first.lane = gather ? outer_lane_ : inner_lane_;
    first.accumulate.assign(first.units.size(), 0);
    first.accesses.clear();
    runtime::Op& second = program.ops[id];
    second.span = gather ? runtime::Span::inner : runtime::Span::outer;
    second.lane = gather ? inner_lane_ : outer_lane_;
    for (size_t i = 0; i < second.units.size(); ++i) {
      const runtime::BufferId part = add_part(second, i, gather);
      first.accesses.push_back(second.accesses[2 * i]);
      first.accesses.push_back({part, runtime::Role::partial, runtime::Use::write, {}});
      second.accesses[2 * i] = {part, runtime::Role::partial, runtime::Use::read, {}};
    }
    insert_op(program, id, std::move(first));
    program.ops[id].waits.push_back(id + 1);
    program.ops[id + 1].waits.push_back(id);
  }

  runtime::BufferId add_part(const runtime::Op& op, size_t i, bool gather) {
    const auto elements = static_cast<uint64_t>(layout_.units.units[op.units[i]].elements / layout_.groups.inner);
    runtime::Buffer buffer{"part of " + layout_.units.units[op.units[i]].name + " for " + op.name,
                           gather ? core::Category::gathered : core::Category::comm, runtime::Life::transient,
                           elements * core::dtype_size(gather ? layout_.compute : layout_.local_grad)};
    uint64_t& end = set_.arena_bytes[0];
    buffer.offset = (end + 2 * core::red_zone_bytes) / 64 * 64;
    end = buffer.offset + buffer.extent();
    return set_.add(std::move(buffer));
  }

  runtime::ProgramSet& set_;
  runtime::Layout& layout_;
  uint8_t inner_lane_ = 0, outer_lane_ = 0;
};

}  // namespace zrt::testing
