// Each collective of meshes that cover all axes, left out, made twice and moved to every other group of ranks, is
// refused, with what it exchanges, the group and the ops beside it.
#include <fmt/format.h>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::moved_collectives_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;

namespace {

struct Case {
  std::string name;
  Setting setting;
  bool qwen = true, tied = false;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, Islands groups, int data, int tensor, int stages, int zero,
                       const std::function<void(Case&)>& adjust = {}) {
    Case made{std::move(name), {}};
    Setting& s = made.setting;
    s.ranks = data, s.tensor = tensor, s.stage = zero, s.schedule.stages = stages, s.groups = groups;
    s.accumulation = 2, s.reduce_every = stages > 1 || zero > 1 ? 1 : 2, s.micro_batch = 1, s.eval = true;
    s.unit_elements = 400, s.bucket = 800;
    if (adjust) adjust(made);
    all.push_back(std::move(made));
  };
  const auto rows = [](Case& c) { c.setting.rows = true; };
  const auto tied = [](Case& c) { c.qwen = false, c.tied = true; };
  for (const int zero : {0, 1, 2, 3}) add(fmt::format("data and tensor, stage {}", zero), {}, 2, 2, 1, zero);
  add("shared rows", {}, 2, 2, 1, 3, rows);
  add("islands, two levels", {2, true, false, false}, 4, 2, 1, 2);
  add("islands, secondary shards", {2, false, true, false}, 4, 2, 1, 3);
  add("islands, equal shards", {2, false, false, true}, 4, 2, 1, 3, rows);
  add("stages of a tied model", {}, 2, 2, 2, 1, tied);
  add("stages that share rows, recomputed", {}, 2, 2, 2, 2,
      [](Case& c) { c.setting.rows = true, c.setting.recompute = {Recompute::full}; });
  add("interleaved stages", {}, 2, 2, 2, 3, [](Case& c) {
    c.setting.schedule.kind = ScheduleKind::interleaved, c.setting.schedule.chunks = 2;
    c.setting.schedule.group = 2;
  });
  add("sums of an optimizer", {}, 2, 2, 1, 2, [](Case& c) { c.setting.optimizer = adafactor(false); });
  add("refined matrices", {}, 2, 2, 1, 2, [](Case& c) { c.setting.optimizer = muon(); });
  return all;
}

models::Model model_of(const Case& c) {
  return make_small(c.qwen ? ModelType::qwen3 : ModelType::gpt2, {.hidden = 16,
                                                                  .heads = 4,
                                                                  .sequence = 6,
                                                                  .vocab = 31,
                                                                  .tied = c.tied && !c.qwen,
                                                                  .degrees = {c.setting.tensor, c.setting.rows}});
}

// The programs of all stages, of which some are to be broken.
class Programs {
 public:
  explicit Programs(const Case& c) {
    const models::Model model = model_of(c);
    std::vector<size_t> ends;
    const auto pieces = static_cast<size_t>(c.setting.schedule.stages * c.setting.schedule.chunks);
    for (size_t p = 1; p <= pieces; ++p) ends.push_back(p * model.blocks.size() / pieces);
    Pipeline pipeline(model, c.setting, ends);
    stages_ = pipeline.compile(std::vector<std::string>{"init", "step", "eval", "export"});
  }
  const std::vector<Compiled>& stages() const { return stages_; }
  // The verifier's words on the programs with another set for one stage.
  std::string verdict(size_t stage, const ProgramSet& broken) const {
    std::vector<const ProgramSet*> sets;
    std::vector<int> firsts;
    for (size_t s = 0; s < stages_.size(); ++s) {
      sets.push_back(s == stage ? &broken : &stages_[s].set);
      firsts.push_back(stages_[s].layout.mesh.first_of(static_cast<int>(s)));
    }
    try {
      verify(broken, stages_[stage].layout);
      if (sets.size() > 1) verify_collectives(sets, firsts);
    } catch (const core::ProgramError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::vector<Compiled> stages_;
};

bool same_ranks(const Group& a, const Group& b) {
  return a.ranks.size == b.ranks.size && a.ranks.stride == b.ranks.stride && a.ranks.first == b.ranks.first;
}

}  // namespace

TEST_CASE("every collective that is left out, made twice, moved to another group or of another kind is refused") {
  size_t refused = 0, without_axis = 0;
  for (const Case& c : cases()) {
    const Programs programs(c);
    for (size_t stage = 0; stage < programs.stages().size(); ++stage) {
      const ProgramSet& whole = programs.stages()[stage].set;
      REQUIRE(programs.verdict(stage, whole).empty());
      for (const Program& program : whole.programs) {
        for (OpId id = 0; id < program.ops.size(); ++id) {
          const Op& op = program.ops[id];
          const Group& group = whole.group(op);
          if (whole.lanes[op.lane].kind != LaneKind::comm || group.ranks.size == 1) continue;
          const auto judge = [&](const std::string& what, const std::function<void(ProgramSet&, Program&)>& breaks) {
            ProgramSet broken = whole;
            breaks(broken, program_of(broken, program.phase));
            const std::string message = programs.verdict(stage, broken);
            INFO(c.name << ", stage " << stage << ", " << program.phase << ", '" << op.name << "' of " << group.name
                        << " " << what << ": " << message);
            // Ops of two stages are named with what they exchange.
            const bool stages = message.find("' on one and '") != std::string::npos;
            const bool named = ops_named(broken, message) > 0 || stages;
            if (!named) FAIL_CHECK((message.empty() ? "it is accepted" : "no op is named"));
            const bool axis = stages || std::any_of(whole.groups.begin(), whole.groups.end(), [&](const Group& g) {
                                return message.find(g.name) != std::string::npos;
                              });
            without_axis += named && !axis;
            refused += named;
          };
          judge("left out", [&](ProgramSet&, Program& p) { drop_op(p, id); });
          judge("made twice", [&](ProgramSet&, Program& p) { insert_op(p, id, p.ops[id]); });
          for (GroupId g = 0; g < whole.groups.size(); ++g) {
            if (same_ranks(whole.groups[g], group)) continue;
            judge("moved to " + whole.groups[g].name, [&](ProgramSet& set, Program& p) {
              p.ops[id].group = g, p.ops[id].lane = set.lane(LaneKind::comm, set.groups[g].name);
            });
          }
          if (op.kind != OpKind::exchange) continue;
          using models::Collective;
          for (const Collective other :
               {Collective::none, Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
            if (other == op.collective) continue;
            judge(fmt::format("completed by {}", models::collective_name(other)),
                  [&](ProgramSet&, Program& p) { p.ops[id].collective = other; });
          }
        }
      }
    }
  }
  CHECK(refused > 5000);
  CHECK(without_axis < refused / 4);
}

TEST_CASE("a group whose ranks are those of another axis is refused") {
  for (const Case& c : cases()) {
    const Programs programs(c);
    const ProgramSet& whole = programs.stages()[0].set;
    for (GroupId g = 0; g < whole.groups.size(); ++g) {
      const auto uses = [&](const Op& op) { return whole.lanes[op.lane].kind == LaneKind::comm && op.group == g; };
      const auto& ops = whole.programs[1].ops;
      if (std::none_of(ops.begin(), ops.end(), uses)) continue;
      for (const Group& other : whole.groups) {
        if (same_ranks(other, whole.groups[g])) continue;
        ProgramSet broken = whole;
        broken.groups[g].ranks = other.ranks;
        const std::string message = programs.verdict(0, broken);
        INFO(c.name << ", " << whole.groups[g].name << " as " << other.name << ": " << message);
        CHECK(ops_named(broken, message) > 0);
        CHECK(message.find(whole.groups[g].name) != std::string::npos);
      }
    }
  }
}

TEST_CASE("an exchange of nothing, of two buffers, or in a buffer of another size is refused") {
  Case c{"tensor", {}};
  c.setting.tensor = 2, c.setting.ranks = 1;
  const Programs programs(c);
  const ProgramSet& whole = programs.stages()[0].set;
  const auto& ops = whole.programs[1].ops;
  const auto exchange = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::exchange; });
  REQUIRE(exchange != ops.end());
  const auto id = static_cast<size_t>(exchange - ops.begin());
  ProgramSet broken = whole;
  broken.programs[1].ops[id].accesses.clear();
  CHECK(programs.verdict(0, broken).find("names 0 buffers") != std::string::npos);
  broken = whole;
  Access other = exchange->accesses[0];
  other.role = other.role == Role::port ? Role::d_port : Role::port;
  broken.programs[1].ops[id].accesses.push_back(other);
  CHECK(programs.verdict(0, broken).find("names 2 buffers; it needs") != std::string::npos);
  broken = whole;
  broken.buffers[exchange->accesses[0].buffer].bytes += 64;
  CHECK(programs.verdict(0, broken).find(exchange->name) != std::string::npos);
}

}  // namespace zrt::moved_collectives_test
