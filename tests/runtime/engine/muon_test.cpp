// Muon in whole programs: whole matrices, each on one rank, with the same bits whatever the layout.
#include <map>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/comm_bytes.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/families.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::muon_runs_test {

using namespace zrt;
using namespace zrt::testing;
using core::Category;
using optimizer::OptimizerPtr;
using runtime::OpKind;

namespace {

OptimizerPtr muon() {
  optimizer::MuonParams matrices;
  matrices.weight_decay = 0.1f;
  return make_split(make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f}), make_optimizer(matrices),
                    [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; });
}

Setting setting(core::DType type, int ranks, int stage, unsigned choice = 0) {
  Setting s;
  s.optimizer = muon(), s.compute = type, s.ranks = ranks, s.stage = stage, s.steps = 3;
  s.accumulation = s.reduce_every = 2;
  s.unit_elements = choice & 1 ? 100 : 100000;
  s.bucket = 2 * s.unit_elements;
  s.overlap = choice & 2;
  s.serialize = choice & 4;
  s.loss_scale.initial = type == core::DType::f16 ? 128 : 1;
  return s;
}

models::Model model_of(bool tied = false) {
  return make_toy(5, 12, 17, 5, tied, false);
}

runtime::Compiled compiled_for(const runtime::Layout& layout) {
  return runtime::compile(layout, {"init", "step"});
}

}  // namespace

TEST_CASE("Muon has one hash over stages, placements, overlap and unit sizes, on each number of ranks") {
  unsigned turn = 0;
  for (const core::DType type : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const models::Model model = model_of(++turn % 2 == 0);
      if (left_to_processor(turn)) continue;
      const Outcome reference = run(model, setting(type, ranks, 0));
      REQUIRE(reference.losses.back() < reference.losses.front() + 1);
      for (int stage = 0; stage < 4; ++stage) {
        for (const NamedPlacing& placing : placings()) {
          if (!full_tests() && ++turn % 4 != 0) continue;
          Setting s = setting(type, ranks, stage, turn / 4 + static_cast<unsigned>(stage));
          s.placement = with_exchanges_on_the_device(placing.place);
          const Outcome outcome = run(model, s);
          CAPTURE(core::dtype_name(type), ranks, stage, placing.name, turn);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.measured == outcome.planned);
          CHECK(outcome.measured_behind == outcome.planned_behind);
        }
      }
    }
  }
}

TEST_CASE("Muon's updates as soon as gradients are there give the same bits where nothing is clipped") {
  for (int stage = 0; stage < 4; ++stage) {
    if (left_to_processor(static_cast<unsigned>(stage))) continue;
    const models::Model model = model_of();
    Setting s = setting(core::DType::bf16, 3, stage);
    s.clip = 0;
    const Outcome reference = run(model, s);
    s.early_updates = true;
    s.overlap = stage % 2 == 0;
    const Outcome outcome = run(model, s);
    CAPTURE(stage);
    CHECK(outcome.state == reference.state);
    CHECK(outcome.measured == outcome.planned);
  }
}

TEST_CASE("a step that is skipped leaves Muon's weights and momentum as they were") {
  Setting s = setting(core::DType::f16, 2, 2);
  s.loss_scale.initial = 128;
  const Outcome reference = run(model_of(), s);
  // The first steps overflow and are repeated with other data; what is compared is that nothing of them stays.
  s.loss_scale.dynamic = true;
  s.loss_scale.initial = 0x1p40;
  s.loss_scale.hysteresis = 1;
  s.steps = 1;
  const Outcome skipped = run(model_of(), s);
  s.steps = 0;
  CHECK(skipped.state == run(model_of(), s).state);
  CHECK(reference.state != skipped.state);
}

TEST_CASE("MiCS groups refine inside each group, with the same bits over placements of states") {
  Setting s = setting(core::DType::f32, 4, 3);
  s.groups = {2, false, false, true};
  const Outcome reference = run(model_of(), s);
  s.placement = [](const runtime::Layout& layout) {
    return uniform(layout, core::Tier::host, core::Tier::host, core::Tier::nvme, core::Tier::host, core::Tier::device,
                   core::Tier::device);
  };
  s.overlap = true;
  CHECK(run(model_of(), s).state == reference.state);
}

TEST_CASE("Muon goes on from a checkpoint with the same bits, and on any ranks with the same weights") {
  const models::Model model = model_of();
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    const TemporaryFolder folder;
    SavingRun whole(model, setting(type, 2, 3), folder.path, false);
    whole.steps(2);
    const std::string at_save = whole.hash();
    whole.save();
    REQUIRE(whole.saved().error.empty());
    whole.steps(3);
    const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
    SavingRun again(model, setting(type, 2, 3), folder.path / "again", false, &reader);
    again.steps(3);
    CHECK(again.hash() == whole.hash());
    for (const int ranks : {1, 3, 4}) {
      CAPTURE(core::dtype_name(type), ranks);
      SavingRun other(model, setting(type, ranks, ranks % 4), folder.path / "other", false, &reader);
      CHECK(other.hash() == at_save);
    }
  }
}

TEST_CASE("states take 4 bytes for each element of a hidden matrix and 8 for all others, divided as the stage says") {
  const models::Model model = make_toy(5, 24, 40, 4, false, false);
  for (int ranks : {1, 2, 4}) {
    for (int stage = 0; stage < 4; ++stage) {
      Setting s = setting(core::DType::bf16, ranks, stage);
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = compiled_for(layout);
      const auto& states = compiled.plan.device().model_states;
      uint64_t all = 0, others = 0;
      for (const optimizer::Unit& unit : layout.units.units) {
        const auto held = static_cast<uint64_t>(stage == 0 ? unit.elements : unit.shard);
        all += held;
        if (!layout.optimizer->refines(unit.group)) others += held;
      }
      CAPTURE(ranks, stage);
      CHECK(all > others);
      CHECK(states[static_cast<size_t>(Category::master)] == 4 * all);
      CHECK(states[static_cast<size_t>(Category::moment1)] == 4 * all);
      CHECK(states[static_cast<size_t>(Category::moment2)] == 4 * others);
    }
  }
}

TEST_CASE("each matrix is refined once, and the ranks' shares of the work differ by one matrix at most") {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const bool early : {false, true}) {
      Setting s = setting(core::DType::f32, ranks, 2);
      s.early_updates = early;
      s.clip = 0;
      const models::Model model = model_of();
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = compiled_for(layout);
      std::multiset<uint32_t> refined;
      std::vector<double> work(static_cast<size_t>(ranks));
      double largest = 0;
      for (const runtime::Op& op : compiled.set.program("step").ops) {
        if (op.kind != OpKind::refine) continue;
        CHECK(op.units.size() <= static_cast<size_t>(ranks));
        for (size_t i = 0; i < op.units.size(); ++i) {
          const double flops = layout.optimizer->refine_flops(layout.units.units[op.units[i]]);
          refined.insert(op.units[i]);
          work[static_cast<size_t>(runtime::owner_of_refined(op, i, ranks))] += flops;
          largest = std::max(largest, flops);
        }
      }
      CAPTURE(ranks, early);
      CHECK(refined.size() == 5);
      CHECK(std::set<uint32_t>(refined.begin(), refined.end()).size() == 5);
      const auto [least, most] = std::minmax_element(work.begin(), work.end());
      CHECK(*most - *least <= largest);
    }
  }
}

TEST_CASE("updates as soon as they can be give each rank as much of unequal matrices, over as many layers as ranks") {
  const models::Model model = models::make_gpt2({.layers = 4, .hidden = 32, .heads = 2, .sequence = 8, .vocab = 40});
  Setting s = setting(core::DType::f32, 4, 2);
  s.early_updates = true, s.clip = 0;
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = compiled_for(layout);
  std::vector<double> work(4);
  for (const runtime::Op& op : compiled.set.program("step").ops) {
    for (size_t i = 0; op.kind == OpKind::refine && i < op.units.size(); ++i) {
      work[static_cast<size_t>(runtime::owner_of_refined(op, i, 4))] +=
          layout.optimizer->refine_flops(layout.units.units[op.units[i]]);
    }
  }
  CHECK(work[0] > 0);
  for (const double each : work) CHECK(each == work[0]);
}

TEST_CASE("what ranks exchange for matrices is counted, planned, and equals its closed form") {
  for (int ranks : {1, 2, 3}) {
    for (int stage : {0, 1, 3}) {
      const models::Model model = model_of();
      const Setting s = setting(core::DType::f32, ranks, stage, 2);
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = compiled_for(layout);
      const runtime::CommBytes planned = comm_bytes(compiled.set, compiled.set.program("step"), layout);
      const Outcome outcome = run(model, s);
      // Five matrices of 12 x 12 in units of `unit` elements; rank 0 owns every `ranks`th from the first on.
      const auto unit = static_cast<uint64_t>(layout.units.units[1].elements), n = static_cast<uint64_t>(ranks);
      const uint64_t owned = (5 + n - 1) / n, others = 5 - owned;
      const uint64_t collected = stage == 0 ? 0 : owned * unit * 4 / n * (n - 1);
      const uint64_t handed = others * unit * 4 / (stage == 0 ? 1 : n);
      CAPTURE(ranks, stage);
      CHECK(planned.at(OpKind::collect) == collected);
      CHECK(planned.at(OpKind::hand_out) == handed);
      const auto counted = [&](OpKind kind) {
        const auto found = outcome.comm.find(kind);
        return found == outcome.comm.end() ? 0 : found->second.bytes;
      };
      CHECK(counted(OpKind::collect) == 3 * collected);
      CHECK(counted(OpKind::hand_out) == 3 * handed);
    }
  }
}

TEST_CASE("an update of a matrix on the host is refused") {
  Setting s = setting(core::DType::f32, 2, 2);
  s.placement = [](const runtime::Layout& layout) {
    return uniform(layout, core::Tier::device, core::Tier::host, core::Tier::host, core::Tier::host, core::Tier::device,
                   core::Tier::host);
  };
  CHECK_THROWS_WITH(run(model_of(), s), Catch::Contains("share sums or whole matrices"));
}

TEST_CASE("the verifier refuses programs that refine the wrong thing") {
  const models::Model model = model_of();
  const Setting s = setting(core::DType::f32, 2, 2);
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = compiled_for(layout);
  const runtime::Program& good = compiled.set.program("step");
  using Ops = std::vector<runtime::Op>;
  const auto check = [&](const runtime::Program& program) {
    runtime::ProgramSet set = compiled.set;
    for (runtime::Program& each : set.programs) {
      if (each.phase == "step") each = program;
    }
    const runtime::verification::Families families(set, layout);
    const auto orders = runtime::verification::part_orders(layout);
    runtime::verification::check_step(program, layout, orders);
    runtime::verification::check_meaning(set, program, layout, orders, families);
  };
  CHECK_NOTHROW(check(good));
  const auto nth = [&](OpKind kind, size_t n) {
    for (size_t i = 0; i < good.ops.size(); ++i) {
      if (good.ops[i].kind == kind && n-- == 0) return i;
    }
    throw core::ProgramError("no such op");
  };
  const auto refuses = [&](const std::function<void(Ops&)>& fault, const std::string& message) {
    runtime::Program bad = good;
    fault(bad.ops);
    CHECK_THROWS_WITH(check(bad), Catch::Contains(message));
  };
  const size_t propose = nth(OpKind::propose, 0), collect = nth(OpKind::collect, 0), refine = nth(OpKind::refine, 0),
               hand_out = nth(OpKind::hand_out, 0), update = nth(OpKind::update, 0);
  refuses([&](Ops& ops) { std::swap(ops[propose], ops[collect]); }, "out of order");
  refuses([&](Ops& ops) { std::swap(ops[collect], ops[refine]); }, "out of order");
  refuses([&](Ops& ops) { std::swap(ops[refine], ops[hand_out]); }, "out of order");
  refuses([&](Ops& ops) { std::swap(ops[hand_out], ops[update]); }, "comes before the 'hand_out'");
  refuses([&](Ops& ops) { ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(refine)); }, "out of order");
  // Proposals of two units are mixed up.
  refuses([&](Ops& ops) { std::swap(ops[collect].accesses[0].buffer, ops[collect].accesses[1].buffer); }, "works on");
  refuses([&](Ops& ops) { std::swap(ops[hand_out].accesses[1].buffer, ops[hand_out].accesses[2].buffer); },
          "means the proposal for");
  refuses([&](Ops& ops) { std::swap(ops[refine].units[0], ops[refine].units[1]); }, "works on");
  refuses([&](Ops& ops) { ops[refine].first_owner = 1; }, "is owned by rank 1");
  refuses([&](Ops& ops) { ops[hand_out].first_owner = 1; }, "is owned by rank 1");
}

}  // namespace zrt::muon_runs_test
