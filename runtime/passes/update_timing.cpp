#include "runtime/passes/update_timing.h"

#include <algorithm>

#include "core/error.h"
#include "optimizer/optimizer.h"

namespace zrt::runtime {
namespace {

class AfterNorm : public UpdateTiming {
 public:
  AfterNorm(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : set_(set), layout_(layout), state_(state) {}
  void measured(DraftSegment&, const std::vector<uint32_t>&) override {}
  void decided(DraftSegment& segment) override {
    std::vector<uint32_t> all;
    for (uint32_t u = 0; u < layout_.units.units.size(); ++u) {
      if (layout_.units.units[u].trained) all.push_back(u);
    }
    add_updates(segment, set_, layout_, state_, all, 0);
  }

 private:
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
};

class AsReady : public UpdateTiming {
 public:
  AsReady(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : set_(set), layout_(layout), state_(state) {
    if (!layout.optimizer->shares_sums()) return;
    throw core::ConfigError(
        "memory.update_when is \"as_ready\", but this optimizer needs the norm of the whole gradient before it updates "
        "anything. Set memory.update_when to \"after_norm\", or choose another optimizer.");
  }
  bool measures_at_once() const override { return true; }
  void begun(DraftSegment& segment) override {
    Op op;
    op.kind = OpKind::decide_ahead;
    op.name = "decide ahead";
    op.accesses = {{state_.control, Role::control, Use::read, {}}, {state_.ahead, Role::control, Use::write, {}}};
    segment.ops.push_back(std::move(op));
  }
  void measured(DraftSegment& segment, const std::vector<uint32_t>& units) override {
    const size_t before = segment.ops.size();
    add_updates(segment, set_, layout_, state_, units, first_owner_);
    first_owner_ += std::any_of(units.begin(), units.end(),
                                [&](uint32_t u) { return layout_.optimizer->refines(layout_.units.units[u].group); });
    for (size_t i = before; i < segment.ops.size(); ++i) segment.ops[i].row = 1;
  }

 private:
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
  uint32_t first_owner_ = 0;  // of what is refined: ranks take turns at the costliest matrix
};

}  // namespace

std::unique_ptr<UpdateTiming> make_update_timing(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  if (layout.early_updates) return std::make_unique<AsReady>(set, layout, state);
  return std::make_unique<AfterNorm>(set, layout, state);
}

}  // namespace zrt::runtime
