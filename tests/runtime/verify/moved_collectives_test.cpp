// Each collective of meshes that cover all axes, left out, made twice, made again behind its first reader and moved to
// every other group of ranks, is refused, with what it exchanges, the group and an op beside it. Faults keep the order
// of all other ops, as if waits had been made behind them: what is refused is what the program means.
#include <fmt/format.h>

#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
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
  bool qwen = true, tied = false, frozen = false;
  std::optional<models::Experts> experts = {};
  std::vector<std::string> phases{"init", "step", "eval", "export", "save"};
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
  add("islands, two levels of gathers", {2, true, false, false}, 4, 1, 1, 3);
  add("islands, two levels beside computation", {2, true, false, false}, 4, 2, 1, 3,
      [](Case& c) { c.setting.overlap = true; });
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
  add("updates in the next step", {}, 2, 2, 1, 2, [](Case& c) { c.setting.late_updates = true; });
  add("matrices refined in the next step", {}, 2, 2, 2, 1, [](Case& c) {
    c.setting.optimizer = muon();
    c.setting.late_updates = c.setting.overlap = true;
  });
  add("halves beside exchanges", {}, 2, 2, 1, 3, [](Case& c) { c.setting.rows = c.setting.overlap = true; });
  add("stages, overlapped", {}, 2, 2, 2, 3, [](Case& c) { c.setting.overlap = true; });
  add("zb-h1", {}, 2, 2, 2, 1, [](Case& c) { c.setting.schedule.kind = ScheduleKind::zb_h1; });
  add("selective recomputation", {}, 2, 2, 1, 3, [](Case& c) {
    c.setting.recompute = {Recompute::selective, Recompute::none};
  });
  add("frozen matrices", {}, 2, 2, 1, 3, [](Case& c) { c.frozen = true; });
  for (const NamedPlacing& placing : placings()) {
    if (placing.name != "all on the host" && placing.name != "all on NVMe" && placing.name != "scattered 1") continue;
    add(placing.name, {}, 2, 2, 1, 2, [&](Case& c) { c.setting.placement = placing.place; });
  }
  const auto experts = [](double capacity) {
    return [capacity](Case& c) {
      c.setting.expert = 2;
      c.experts = models::Experts{.number = 4, .ffn = 8, .top_k = 2, .capacity_factor = capacity};
    };
  };
  add("spread experts", {}, 4, 1, 1, 1, experts(0));
  add("spread experts, overlapped, recomputed", {}, 4, 1, 1, 3, [&](Case& c) {
    experts(0.5)(c);
    c.setting.overlap = true, c.setting.recompute = {Recompute::selective};
  });
  add("spread experts that ranks share", {}, 4, 2, 1, 3, [&](Case& c) {
    experts(0.5)(c);
    c.setting.rows = true;
  });
  add("spread experts in stages, zb-h1", {}, 2, 2, 2, 2, [&](Case& c) {
    experts(0)(c);
    c.setting.schedule.kind = ScheduleKind::zb_h1;
  });
  add("decoding with spread experts", {}, 2, 1, 1, 3, [&](Case& c) {
    experts(0)(c);
    c.phases = {"load", "decode"};
  });
  add("decoding", {}, 2, 2, 1, 3, [](Case& c) { c.phases = {"load", "decode"}; });
  add("decoding with shared rows", {}, 2, 2, 1, 0, [](Case& c) {
    c.setting.rows = true;
    c.phases = {"load", "decode"};
  });
  add("stages that only evaluate", {}, 2, 2, 2, 3, [](Case& c) { c.phases = {"load", "eval"}; });
  return all;
}

models::Model model_of(const Case& c) {
  if (c.experts) {
    models::LlamaConfig config;
    config.layers = 2, config.hidden = 16, config.heads = 4, config.ffn = 24, config.sequence = 6, config.vocab = 31;
    config.degrees = {c.setting.tensor, c.setting.rows, c.setting.expert}, config.experts = *c.experts;
    return models::make_llama(config);
  }
  models::Model model =
      make_small(c.qwen ? ModelType::qwen3 : ModelType::gpt2, {.hidden = 16,
                                                               .heads = 4,
                                                               .sequence = 6,
                                                               .vocab = 31,
                                                               .tied = c.tied && !c.qwen,
                                                               .degrees = {c.setting.tensor, c.setting.rows}});
  for (const auto& ref : model.canonical_params()) {
    const std::string& name = model.blocks[ref.block]->params()[ref.index].name;
    if (c.frozen && name.ends_with("_proj.weight")) model.frozen.insert(name);
  }
  return model;
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
    stages_ = pipeline.compile(c.phases);
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

// True for each thing that a message says about the place of a fault of an op: its operand, by the name of a buffer or
// unit, the group that it goes among, and an op beside it.
struct Said {
  bool operand = false, axis = false, neighbour = false;
};

Said said_of(const std::string& message, const Op& op, const ProgramSet& set, const Layout& layout) {
  const size_t places = message.find('\n');
  if (places == std::string::npos) return {};
  const std::string context = message.substr(places);
  const auto names = [](const std::string& text, const std::string& name) {
    return text.find('\'' + name + '\'') != std::string::npos;
  };
  Said said;
  for (const Access& access : op.accesses) said.operand |= names(context, set.buffers[access.buffer].name);
  for (uint32_t u : op.units) said.operand |= names(context, layout.units.units[u].name);
  said.axis = names(context, set.group(op).name);
  for (size_t at = context.find("Neighbours: "); at != std::string::npos; at = context.find("Neighbours: ", at + 1)) {
    const std::string beside = context.substr(at, context.find('\n', at) - at);
    for (size_t open = beside.find('\''); open != std::string::npos;) {
      const size_t close = beside.find("' ", open + 1);
      if (close == std::string::npos) break;
      said.neighbour |= beside.substr(open + 1, close - open - 1) != op.name;
      open = beside.find('\'', close + 1);
    }
  }
  return said;
}

bool gathers(OpKind kind) {
  return kind == OpKind::gather || kind == OpKind::gather_grad || kind == OpKind::gather_state ||
         kind == OpKind::gather_parts || kind == OpKind::gather_received;
}

// The first op behind another that reads what that one makes; the op itself where there is none.
OpId first_reader(const Program& program, OpId id) {
  const auto reads = [&](const Op& op) {
    return std::any_of(op.accesses.begin(), op.accesses.end(), [&](const Access& access) {
      const auto makes = [&](const Access& made) { return made.use != Use::read && made.buffer == access.buffer; };
      const auto& made = program.ops[id].accesses;
      return access.use == Use::read && std::any_of(made.begin(), made.end(), makes);
    });
  };
  for (OpId other = id + 1; other < program.ops.size(); ++other) {
    if (program.ops[other].name == program.ops[id].name) break;
    if (reads(program.ops[other])) return other;
  }
  return id;
}

// Puts a copy of a gather behind its first reader, in order with all other lanes.
void gather_again(Program& program, OpId id) {
  const OpId reader = first_reader(program, id);
  Op again = program.ops[id];
  again.waits.push_back(reader);
  insert_op(program, reader, std::move(again));  // in front of the reader, which is one further now,
  swap_ops(program, reader, reader + 1);         // and then behind it
  std::erase(program.ops[reader + 1].waits, reader + 1);
  program.ops[reader + 1].waits.push_back(reader);
  for (OpId other = 0; other < program.ops.size(); ++other) {
    if (other != reader + 1 && other != reader) program.ops[other].waits.push_back(reader + 1);
  }
}

// The ways to break a collective: left out, made twice, moved to each group of other ranks, and, of what completes a
// port, each other collective.
using Breaks = std::function<void(ProgramSet&, Program&)>;
std::vector<std::pair<std::string, Breaks>> faults_of(const ProgramSet& set, const Program& program, OpId id) {
  const Op& op = program.ops[id];
  const bool behind = gathers(op.kind) && first_reader(program, id) != id;
  std::vector<std::pair<std::string, Breaks>> all{
      {"left out",
       [id](ProgramSet&, Program& p) {
         order_by_waits(p, id);
         drop_op(p, id);
       }},
      {"made twice", [id](ProgramSet&, Program& p) { insert_op(p, id, p.ops[id]); }}};
  if (behind)
    all.emplace_back("made again behind its first reader", [id](ProgramSet&, Program& p) { gather_again(p, id); });
  for (GroupId g = 0; g < set.groups.size(); ++g) {
    if (same_ranks(set.groups[g], set.group(op))) continue;
    all.emplace_back("moved to " + set.groups[g].name, [id, g](ProgramSet& broken, Program& p) {
      order_by_waits(p, id);
      p.ops[id].group = g, p.ops[id].lane = broken.lane(LaneKind::comm, broken.groups[g].name);
    });
  }
  if (op.kind != OpKind::exchange) return all;
  using models::Collective;
  for (const Collective other : {Collective::none, Collective::all_reduce, Collective::reduce_scatter,
                                 Collective::all_gather, Collective::all_to_all}) {
    if (other == op.collective) continue;
    all.emplace_back(fmt::format("completed by {}", models::collective_name(other)),
                     [id, other](ProgramSet&, Program& p) { p.ops[id].collective = other; });
  }
  return all;
}

}  // namespace

TEST_CASE("every collective that is left out, made twice, moved to another group or of another kind is refused") {
  std::set<OpKind> kinds;
  Axes axes;
  size_t judged = 0, collectives = 0, behind = 0, elsewhere = 0, ports = 0;
  for (const Case& c : cases()) {
    const Programs programs(c);
    for (size_t stage = 0; stage < programs.stages().size(); ++stage) {
      const ProgramSet& whole = programs.stages()[stage].set;
      REQUIRE(programs.verdict(stage, whole).empty());
      for (const Program& program : whole.programs) {
        for (OpId id = 0; id < program.ops.size(); ++id) {
          const Op& op = program.ops[id];
          if (!spec(op.kind).communicates() || whole.group(op).ranks.size == 1) continue;
          kinds.insert(op.kind);
          axes = axes | whole.group(op).axes;
          ++collectives;
          behind += gathers(op.kind) && first_reader(program, id) != id;
          ports += op.kind == OpKind::exchange;
          for (const Group& other : whole.groups) elsewhere += !same_ranks(other, whole.group(op));
          for (const auto& [what, breaks] : faults_of(whole, program, id)) {
            ProgramSet broken = whole;
            breaks(broken, program_of(broken, program.phase));
            const std::string message = programs.verdict(stage, broken);
            const Said said = said_of(message, op, whole, programs.stages()[stage].layout);
            ++judged;
            // Ops of two stages are named with what they exchange.
            const bool names = ops_named(broken, message) > 0 || message.find("' on one and '") != std::string::npos;
            if (said.operand && said.axis && said.neighbour && names) continue;
            INFO(c.name << ", stage " << stage << ", " << program.phase << ", '" << op.name << "' of "
                        << whole.group(op).name << " " << what << ": " << message);
            CHECK_FALSE(message.empty());
            CHECK(names);
            CHECK(said.operand);
            CHECK(said.axis);
            CHECK(said.neighbour);
          }
        }
      }
    }
  }
  // All that was to be done to each was: left out and made twice, made again behind a reader, moved to each other
  // group, completed by each of four other collectives.
  CHECK(judged == 2 * collectives + behind + elsewhere + 4 * ports);
  // The cases hold every kind of collective, over every axis.
  for (const OpSpec& row : op_specs()) {
    INFO(row.name);
    CHECK((kinds.count(row.kind) == 1) == row.communicates());
  }
  CHECK(axes == core::all_axes);
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

TEST_CASE("an exchange or a message of nothing, of two buffers, or in a buffer of another size is refused") {
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
  Case piped{"stages", {}};
  piped.setting.schedule.stages = 2, piped.setting.ranks = 1;
  const Programs two(piped);
  for (const OpKind kind : {OpKind::send, OpKind::receive}) {
    broken = two.stages()[0].set;
    auto& all = broken.programs[1].ops;
    const auto link = std::find_if(all.begin(), all.end(), [&](const Op& op) { return op.kind == kind; });
    REQUIRE(link != all.end());
    link->accesses.clear();
    CHECK(two.verdict(0, broken).find("names 0 buffers; it needs one") != std::string::npos);
  }
}

}  // namespace zrt::moved_collectives_test
