#include <fmt/format.h>

#include "runtime/verify/checks.h"
#include "runtime/verify/execution.h"
#include "runtime/verify/fault.h"
#include "runtime/verify/lane_clocks.h"
#include "runtime/verify/shadow.h"

namespace zrt::runtime::verification {
namespace {

class MemoryChecker {
 public:
  MemoryChecker(const ProgramSet& set, const Program& program)
      : set_(set), program_(program), clocks_(program), shadow_(set) {
    if (makes_state()) return;
    for (BufferId b = 0; b < set.buffers.size(); ++b) {
      if (set.buffers[b].life != Life::carried) continue;
      for (uint32_t s = 0; s < set.buffers[b].slots; ++s) {
        shadow_.take(shadow_.slot(b, s), {}, [](const Stretch&) {}).written = false;
      }
    }
  }

  void check() {
    for_each_execution(program_, ~0u, [&](OpId id, uint32_t turn) {
      const Op& op = program_.ops[id];
      now_ = {id, turn};
      clocks_.start(id);
      self_ = {op.lane, clocks_.index(op.lane)};
      for (const Access& access : op.accesses) {
        if (access.use != Use::write) use(access);
      }
      for (const Access& access : op.accesses) {
        if (access.use == Use::write) define(access);
      }
      clocks_.finish(id);
    });
    if (makes_state()) check_state_made();
  }

 private:
  bool makes_state() const { return program_.phase == "init" || program_.phase == "load"; }
  SlotId slot(const Access& access) const {
    return shadow_.slot(access.buffer, access.slot_of(set_.buffers[access.buffer], now_.turn));
  }

  void use(const Access& access) {
    const SlotId slot = this->slot(access);
    Stretch* stretch = shadow_.whole(slot);
    if (!stretch) fail_unwritten(slot);
    if (access.use == Use::read) {
      if (stretch->written && !finished(stretch->writer)) fail_unordered(slot, *stretch, stretch->writer);
    } else {
      check_unused(slot, *stretch);
      stretch->used = {};
      stretch->writer = self_;
      stretch->written = true;
    }
    stretch->use(self_);
  }

  void define(const Access& access) {
    const SlotId slot = this->slot(access);
    Stretch* stretch = shadow_.whole(slot);
    if (stretch) {
      check_unused(slot, *stretch);
      stretch->used = {};
      stretch->writer = self_;
      stretch->written = true;
    } else {
      stretch = &shadow_.take(slot, self_, [&](const Stretch& theirs) { check_unused(slot, theirs); });
    }
    stretch->use(self_);
  }

  bool finished(Execute earlier) const {
    return clocks_.known(self_.lane)[earlier.lane] > earlier.index || is_self(earlier);
  }
  bool is_self(Execute other) const { return other.lane == self_.lane && other.index == self_.index; }

  // Nobody may be using the bytes any more, or this op itself in another buffer.
  void check_unused(SlotId slot, const Stretch& stretch) const {
    for (uint8_t lane = 0; lane < max_lanes; ++lane) {
      if (stretch.used[lane] == 0) continue;
      const Execute earlier{lane, stretch.used[lane] - 1};
      if (is_self(earlier) && stretch.owner != slot) {
        fail(slot, fmt::format("it also uses buffer '{}' in the same bytes{}", buffer(stretch.owner).name,
                               other_user(set_, program_.ops[now_.op], shadow_.buffer(stretch.owner))));
      }
      if (!finished(earlier)) fail_unordered(slot, stretch, earlier);
    }
  }

  // After init and load every state holds values; caches are filled by their first use.
  void check_state_made() {
    for (BufferId b = 0; b < set_.buffers.size(); ++b) {
      const Buffer& buffer = set_.buffers[b];
      if (buffer.life != Life::carried || buffer.category == core::Category::activations) continue;
      if (shadow_.whole(shadow_.slot(b, 0))) continue;
      throw Fault({&program_, {}, b},
                  fmt::format("program '{}' leaves the state '{}' without a value; its last op is '{}'", program_.phase,
                              buffer.name, program_.ops.back().name));
    }
  }

  const Buffer& buffer(SlotId slot) const { return set_.buffers[shadow_.buffer(slot)]; }

  [[noreturn]] void fail(SlotId slot, const std::string& what) const {
    throw Fault({&program_, now_, shadow_.buffer(slot)},
                fmt::format("program '{}' is not safe: {} uses buffer '{}' but {}", program_.phase,
                            name(program_, now_), buffer(slot).name, what));
  }
  [[noreturn]] void fail_unordered(SlotId slot, const Stretch& stretch, Execute earlier) const {
    fail(slot,
         fmt::format(
             "{} may still be using {} on another lane; a wait is missing",
             name(program_, on_lane(program_, earlier.lane, earlier.index)),
             stretch.owner == slot ? "it" : fmt::format("buffer '{}' in the same bytes", buffer(stretch.owner).name)));
  }
  [[noreturn]] void fail_unwritten(SlotId slot) const {
    const Shadow::Taker& taker = shadow_.taker(slot);
    if (taker.known) {
      fail(slot,
           fmt::format("another buffer took its bytes: {} wrote '{}' there",
                       name(program_, on_lane(program_, taker.by.lane, taker.by.index)), buffer(taker.slot).name));
    }
    fail(slot,
         fmt::format("reads it before it is written; what it follows is {}", name(program_, before(program_, now_))));
  }

  const ProgramSet& set_;
  const Program& program_;
  LaneClocks clocks_;
  Shadow shadow_;
  Execution now_;
  Execute self_;
};

}  // namespace

void check_memory(const ProgramSet& set, const Program& program) {
  MemoryChecker(set, program).check();
}

}  // namespace zrt::runtime::verification
