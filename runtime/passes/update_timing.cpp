#include "runtime/passes/update_timing.h"

#include <algorithm>

#include "core/error.h"
#include "optimizer/optimizer.h"

namespace zrt::runtime {
namespace {

std::vector<uint32_t> trained_units(const Layout& layout) {
  std::vector<uint32_t> all;
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    if (layout.units.units[u].trained) all.push_back(u);
  }
  return all;
}

// Fills the control block that updates read which do not follow the decision of their own step.
Op decision_for_updates(const StateBuffers& state, Use control) {
  Op op;
  op.kind = OpKind::decide_ahead;
  op.name = control == Use::read ? "decide ahead" : "take decision";
  op.accesses = {{state.control, Role::control, control, {}}, {state.ahead, Role::control, Use::write, {}}};
  return op;
}

class AfterNorm : public UpdateTiming {
 public:
  AfterNorm(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : set_(set), layout_(layout), state_(state) {}
  void decided(DraftSegment& segment) override {
    add_updates(segment, set_, layout_, state_, trained_units(layout_), 0);
  }

 private:
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
};

// Puts updates of units between blocks.
class BetweenBlocks : public UpdateTiming {
 public:
  BetweenBlocks(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : set_(set), layout_(layout), state_(state) {}

 protected:
  void update(DraftSegment& segment, const std::vector<uint32_t>& units) {
    const size_t before = segment.ops.size();
    add_updates(segment, set_, layout_, state_, units, first_owner_);
    first_owner_ += std::any_of(units.begin(), units.end(),
                                [&](uint32_t u) { return layout_.optimizer->refines(layout_.units.units[u].group); });
    for (size_t i = before; i < segment.ops.size(); ++i) segment.ops[i].row = 1;
  }

  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;

 private:
  uint32_t first_owner_ = 0;  // of what is refined: ranks take turns at the costliest matrix
};

class AsReady : public BetweenBlocks {
 public:
  AsReady(ProgramSet& set, const Layout& layout, const StateBuffers& state) : BetweenBlocks(set, layout, state) {
    if (!layout.optimizer->shares_sums()) return;
    throw core::ConfigError(
        "memory.update_when is \"as_ready\", but this optimizer needs the norm of the whole gradient before it updates "
        "anything. Set memory.update_when to \"after_norm\" or \"next_forward\", or choose another optimizer.");
  }
  bool measures_at_once() const override { return true; }
  void begun(DraftSegment& segment) override { segment.ops.push_back(decision_for_updates(state_, Use::read)); }
  void measured(DraftSegment& segment, const std::vector<uint32_t>& units) override { update(segment, units); }
};

class NextForward : public BetweenBlocks {
 public:
  NextForward(ProgramSet& set, const Layout& layout, const StateBuffers& state, const Draft& step)
      : BetweenBlocks(set, layout, state), read_(layout.units.units.size()) {
    std::vector<uint8_t> found(read_.size());
    for (const DraftSegment& segment : step.segments) {
      for (const Op& op : segment.ops) {
        if (op.kind != OpKind::forward) continue;
        std::vector<uint32_t> first;
        for (uint32_t u : op.units) {
          if (layout.units.units[u].trained && !found[u]) first.push_back(u), found[u] = 1;
        }
        if (!first.empty()) uses_.push_back(std::move(first));
      }
    }
  }
  void begun(DraftSegment& segment) override { segment.ops.push_back(decision_for_updates(state_, Use::update)); }
  // Each block that is the first to use some units finds them updated, and while it runs those of the next such block
  // are.
  void reads(DraftSegment& segment, const Op& op) override {
    const bool first = std::any_of(op.units.begin(), op.units.end(),
                                   [&](uint32_t u) { return layout_.units.units[u].trained && !read_[u]; });
    if (!first) return;
    for (uint32_t u : op.units) read_[u] = 1;
    for (++read_uses_; next_ < uses_.size() && next_ <= read_uses_; ++next_) update(segment, uses_[next_]);
  }

 private:
  std::vector<std::vector<uint32_t>> uses_;  // units that a forward is the first to use, in order
  size_t next_ = 0;                          // of these, to be updated
  size_t read_uses_ = 0;                     // of these, whose forward has come
  std::vector<uint8_t> read_;                // by unit
};

}  // namespace

std::unique_ptr<UpdateTiming> make_update_timing(ProgramSet& set, const Layout& layout, const StateBuffers& state,
                                                 const Draft& step) {
  switch (layout.update_when) {
    case UpdateWhen::as_ready:
      return std::make_unique<AsReady>(set, layout, state);
    case UpdateWhen::next_forward:
      return std::make_unique<NextForward>(set, layout, state, step);
    case UpdateWhen::after_norm:
      break;
  }
  return std::make_unique<AfterNorm>(set, layout, state);
}

Draft make_update(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Draft draft{"update", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  segment.ops.push_back(decision_for_updates(state, Use::update));
  add_updates(segment, set, layout, state, trained_units(layout), 0);
  return draft;
}

}  // namespace zrt::runtime
