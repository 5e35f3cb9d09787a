// The planner has no figure that is not its programs': a pass that does something else shows in the plan.
#include <functional>

#include "catch.h"
#include "runtime/ops/spec.h"
#include "runtime/passes/pass.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "runtime/program/moved.h"

namespace zrt::broken_passes_test {

using namespace zrt::runtime;

namespace {

// Changes a draft behind the pass of a name; empty: it does not apply.
using Break = std::function<void(Draft& draft, Compilation& compilation)>;
Break behind_zero, behind_offload, behind_waits;

template <Break& breaks>
PassSpec pass(const char* name) {
  class Broken : public Pass {
   public:
    explicit Broken(Compilation& compilation) : compilation_(compilation) {}
    void rewrite(Draft& draft) override {
      if (draft.phase == "step") breaks(draft, compilation_);
    }

   private:
    Compilation& compilation_;
  };
  return {name, [](const Layout&) { return static_cast<bool>(breaks); },
          [](Compilation& compilation) -> std::unique_ptr<Pass> { return std::make_unique<Broken>(compilation); }};
}

void register_broken() {
  static const bool once = [] {
    register_pass(pass<behind_zero>("broken behind zero"), "zero");
    register_pass(pass<behind_offload>("broken behind offload"), "offload");
    register_pass(pass<behind_waits>("broken behind waits"), "waits");
    return true;
  }();
  static_cast<void>(once);
}

// Breaks a pass as long as it lives.
class Breaks {
 public:
  Breaks(Break& which, Break how) : which_(which) {
    register_broken();
    which_ = std::move(how);
  }
  ~Breaks() { which_ = nullptr; }
  Breaks(const Breaks&) = delete;
  Breaks& operator=(const Breaks&) = delete;

 private:
  Break& which_;
};

Config config_of(const std::vector<std::string>& sets) {
  return parse_config(
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 3, "overlap_comm": true}, "parallel": {"pipeline": 2}, "memory": {"update": "host"},
          "model": {"type": "gpt2", "layers": 4, "hidden": 256, "heads": 4, "sequence": 128, "vocab": 512, "tied": false}})",
      "broken.json", sets, 4);
}

Plan planned() {
  const Config config = config_of({"memory.placement=device"});
  return make_plan(config, config.model.make(), {"init", "step"}, find_cluster("dgx-a100"));
}

// The planner reads these of a step: bytes that ranks receive, bytes that move between tiers, and seconds.
struct Figures {
  std::vector<CommBytes> received;
  std::vector<uint64_t> moved;
  double seconds = 0;
};
Figures figures(const std::string& placement) {
  const Config config = config_of({"memory.placement=" + placement});
  std::vector<Compiled> stages;
  for (const Layout& layout : make_layouts(config, config.model.make())) {
    stages.push_back(compile(layout, {"init", "step"}, {}, false));
  }
  Figures all;
  for (const Compiled& stage : stages) {
    const Program& step = stage.set.program("step");
    all.received.push_back(comm_bytes(stage.set, step, stage.layout));
    const Moved moved = forecast_moved(stage.set, step);
    all.moved.push_back(moved.to_device + moved.to_host);
  }
  all.seconds = simulate_step(stages, find_cluster("dgx-a100")).front().seconds;
  return all;
}

// Leaves out the first op of a kind, in every draft of a step.
Break without(OpKind kind) {
  return [kind](Draft& draft, Compilation&) {
    for (DraftSegment& segment : draft.segments) {
      const auto found =
          std::find_if(segment.ops.begin(), segment.ops.end(), [&](const Op& op) { return op.kind == kind; });
      if (found == segment.ops.end()) continue;
      segment.ops.erase(found);
      return;
    }
  };
}

}  // namespace

TEST_CASE("a pass that makes buffers larger makes the planned peak larger") {
  const Plan before = planned();
  constexpr uint64_t more = 3 << 20;
  const Breaks larger(behind_zero, [](Draft&, Compilation& compilation) {
    for (Buffer& buffer : compilation.set.buffers) {
      if (buffer.category == core::Category::gathered) buffer.bytes += more;
    }
  });
  const Plan after = planned();
  REQUIRE(after.stages.size() == before.stages.size());
  for (size_t s = 0; s < before.stages.size(); ++s) {
    const auto grown =
        after.stages[s].compiled.plan.device().peak_bytes - before.stages[s].compiled.plan.device().peak_bytes;
    CAPTURE(s, grown);
    CHECK(grown >= more);
    CHECK(grown < 64 * more);
    CHECK(after.stages[s].comm.at(OpKind::gather) > before.stages[s].comm.at(OpKind::gather));
    CHECK(after.stages[s].comm.at(OpKind::reduce_grad) == before.stages[s].comm.at(OpKind::reduce_grad));
  }
}

TEST_CASE("a pass that lets computations wait for all communication makes the planned step longer and smaller") {
  const Plan before = planned();
  const Breaks waiting(behind_waits, [](Draft& draft, Compilation& compilation) {
    OpId id = 0;
    std::optional<OpId> sent;
    for (DraftSegment& segment : draft.segments) {
      for (Op& op : segment.ops) {
        const LaneKind lane = compilation.set.lanes[op.lane].kind;
        if (lane == LaneKind::compute && sent) op.waits.push_back(*sent);
        if (lane == LaneKind::comm && !compilation.set.group(op).axes.has(Axis::pipeline)) sent = id;
        ++id;
      }
    }
  });
  const Plan after = planned();
  CHECK(after.seconds_per_step() > 1.01 * before.seconds_per_step());
  CHECK(after.stages[0].step->exposed_comm_seconds > before.stages[0].step->exposed_comm_seconds);
  CHECK(after.stages[0].compiled.plan.device().peak_bytes < before.stages[0].compiled.plan.device().peak_bytes);
  CHECK(after.stages[0].comm == before.stages[0].comm);
}

TEST_CASE("a pass that leaves a collective out leaves its bytes out of the plan") {
  const Figures before = figures("device");
  for (const OpKind kind : {OpKind::gather, OpKind::reduce_grad}) {
    CAPTURE(op_kind_name(kind));
    const Breaks broken(behind_zero, without(kind));
    const Figures after = figures("device");
    for (size_t s = 0; s < before.received.size(); ++s) {
      CHECK(after.received[s].at(kind) < before.received[s].at(kind));
      CHECK(total(before.received[s]) - total(after.received[s]) ==
            before.received[s].at(kind) - after.received[s].at(kind));
    }
    CHECK(after.seconds < before.seconds);
  }
}

TEST_CASE("a pass that leaves a copy between tiers out leaves its bytes out of the plan") {
  const Figures before = figures("host");
  for (const OpKind kind : {OpKind::fetch, OpKind::evict}) {
    CAPTURE(op_kind_name(kind));
    const Breaks broken(behind_offload, without(kind));
    const Figures after = figures("host");
    for (size_t s = 0; s < before.moved.size(); ++s) CHECK(after.moved[s] < before.moved[s]);
  }
}

}  // namespace zrt::broken_passes_test
