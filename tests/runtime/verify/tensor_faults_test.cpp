// Broken programs of ranks that share blocks: each kind is refused, with both ops named.
#include <array>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::tensor_faults_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using Catch::Matchers::Contains;

namespace {

// Two ranks that share Qwen3's layers, with and without recomputation.
struct Subject {
  Layout layout;
  Compiled compiled;

  explicit Subject(Recompute how, bool rows = false, bool overlap = false)
      : layout([&] {
          Setting s;
          s.tensor = 2, s.rows = rows, s.stage = 2, s.ranks = 2, s.accumulation = 2, s.reduce_every = 2,
          s.recompute = {how};
          s.eval = true, s.overlap = overlap;
          models::LlamaConfig config{.layers = 2,
                                     .hidden = 16,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .ffn = 24,
                                     .sequence = 6,
                                     .vocab = 31,
                                     .head_norms = true,
                                     .degrees = {2, rows}};
          return make_layout(models::make_llama(config), s);
        }()),
        compiled(compile(layout, {"init", "step", "eval", "export"})) {}

  std::vector<OpId> all(std::string_view phase, OpKind kind) const {
    std::vector<OpId> ids;
    const Program& program = compiled.set.program(phase);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].kind == kind) ids.push_back(id);
    }
    return ids;
  }
  // Returns what the verifier says of the program that `breaks` has broken.
  std::string verdict(std::string_view phase, const std::function<void(Program&)>& breaks) const {
    ProgramSet set = compiled.set;
    breaks(program_of(set, phase));
    try {
      verify(set, layout);
    } catch (const core::ProgramError& error) {
      return error.what();
    }
    return "";
  }
  void refused(std::string_view phase, const std::function<void(Program&)>& breaks, const std::string& why,
               size_t named = 2) const {
    ProgramSet set = compiled.set;
    breaks(program_of(set, phase));
    const std::string message = verdict(phase, breaks);
    INFO(message);
    CHECK_THAT(message, Contains(why));
    CHECK(ops_named(set, message) >= named);
  }
};

constexpr std::array<std::pair<Recompute, bool>, 6> subjects{{{Recompute::none, false},
                                                              {Recompute::selective, false},
                                                              {Recompute::full, false},
                                                              {Recompute::none, true},
                                                              {Recompute::selective, true},
                                                              {Recompute::full, true}}};

}  // namespace

TEST_CASE("programs of ranks that share blocks are accepted, and exchange as often as they must") {
  for (const auto& [how, rows] : subjects) {
    const Subject subject(how, rows);
    CHECK(subject.verdict("step", [](Program&) {}).empty());
    // Two layers have these exchanges each; the embedding has one, the head two. Sharing rows, both have one more: the
    // embedding's in backward, and what the head brings together to read it again.
    const size_t layer = (rows ? 10u : 4u) + (how == Recompute::full ? 1 : 0), ends = rows ? 5 : 3;
    size_t exchanges = 0;
    const Program& step = subject.compiled.set.program("step");
    for_each_execution(step, ~0u, [&](OpId id, uint32_t) { exchanges += step.ops[id].kind == OpKind::exchange; });
    CHECK(exchanges == subject.layout.microbatches * (2 * layer + ends));
  }
}

TEST_CASE("an exchange that is missing, or made twice, or of something else is refused") {
  for (const auto& [how, rows] : subjects) {
    const Subject subject(how, rows);
    // Without its exchange a port of a turn may also seem to be the turn's before, which nobody has waited for.
    for (const std::string_view phase : {"step", "eval"}) {
      for (const OpId id : subject.all(phase, OpKind::exchange)) {
        CAPTURE(phase, id, rows);
        subject.refused(
            phase, [&](Program& p) { drop_op(p, id); }, rows ? "is missing" : "an exchange is missing");
        subject.refused(
            phase, [&](Program& p) { insert_op(p, id, p.ops[id]); }, "has exchanged it already");
      }
    }
  }
}

TEST_CASE("gradients of what all ranks have in part are refused where they are not added up, or added up twice") {
  const bool rows = GENERATE(false, true);
  const Subject subject(Recompute::none, rows);
  size_t shares = 0;
  for (const OpId id : subject.all("step", OpKind::reduce_grad)) {
    const Op& op = subject.compiled.set.program("step").ops[id];
    if (subject.compiled.set.group(op).axes != Axis::tensor) continue;
    ++shares;
    subject.refused(
        "step", [&](Program& p) { drop_op(p, id); }, "their sum is missing");
    subject.refused(
        "step", [&](Program& p) { insert_op(p, id, p.ops[id]); }, "already");
  }
  CHECK(shares == (rows ? 3 : 2));  // of the norms of heads or of all norms, layer by layer, and of the last norm
}

TEST_CASE("outputs of norms that nobody makes again for backward, or that are of another part, are refused") {
  for (const Recompute how : {Recompute::none, Recompute::selective}) {
    const Subject subject(how, true);
    size_t again = 0;
    for (const OpId id : subject.all("step", OpKind::recompute)) {
      const Op& op = subject.compiled.set.program("step").ops[id];
      CAPTURE(op.name, static_cast<int>(how));
      subject.refused(
          "step", [&](Program& p) { drop_op(p, id); }, "'");
      subject.refused(
          "step", [&](Program& p) { ++p.ops[id].parts.end; }, "'", 1);
      ++again;
    }
    // Each of two microbatches makes both norms of two layers and the head's again; the rerun of a selection makes the
    // second norm, and what follows it.
    CHECK(again == 2 * (how == Recompute::none ? 5 : 7));
  }
}

TEST_CASE("runs of parts that are missing, double or in another order are refused") {
  const Subject subject(Recompute::full, GENERATE(false, true));
  for (const OpKind kind : {OpKind::forward, OpKind::recompute, OpKind::backward}) {
    for (const OpId id : subject.all("step", kind)) {
      const Op& op = subject.compiled.set.program("step").ops[id];
      CAPTURE(op.name);
      subject.refused(
          "step", [&](Program& p) { drop_op(p, id); }, "'");
      subject.refused(
          "step", [&](Program& p) { insert_op(p, id, p.ops[id]); }, "'");
      if (op.parts.count() < 2) continue;
      subject.refused(
          "step", [&](Program& p) { --p.ops[id].parts.end; }, "'");
    }
  }
}

TEST_CASE("gradients of weights before those of inputs, twice, not at all or from what other parts hold are refused") {
  const Subject subject(Recompute::none, GENERATE(false, true), true);
  const Program& step = subject.compiled.set.program("step");
  size_t halves = 0;
  for (const OpId id : subject.all("step", OpKind::backward)) {
    if (step.ops[id].half != models::Half::weight) continue;
    CAPTURE(step.ops[id].name);
    OpId inputs = id;
    while (step.ops[inputs].half != models::Half::input) --inputs;
    REQUIRE(step.ops[inputs].parts == step.ops[id].parts);
    ++halves;
    subject.refused(
        "step", [&](Program& p) { drop_op(p, id); }, "'");
    subject.refused(
        "step", [&](Program& p) { insert_op(p, id, p.ops[id]); }, "'");
    subject.refused(
        "step", [&](Program& p) { swap_ops(p, inputs, id); }, "'");
    subject.refused(
        "step", [&](Program& p) { p.ops[inputs].half = models::Half::both; }, "inputs");
    for (const OpId half : {inputs, id}) {
      if (step.ops[id].block + 1 == subject.layout.model->blocks.size()) continue;
      subject.refused(
          "step",
          [&](Program& p) {
            std::erase_if(p.ops[half].accesses, [](const Access& access) { return access.role == Role::held; });
          },
          half == id ? "hold" : "'");
    }
    // It reads what another block holds; the head's gradients of logits are a port's, whose loss is counted once.
    if (step.ops[id].block + 1 == subject.layout.model->blocks.size()) {
      const auto counted = std::find_if(step.ops[inputs].accesses.begin(), step.ops[inputs].accesses.end(),
                                        [](const Access& access) { return access.role == Role::control; });
      REQUIRE(counted != step.ops[inputs].accesses.end());
      subject.refused(
          "step", [&](Program& p) { p.ops[id].accesses.push_back(*counted); }, "counts a loss that another");
      subject.refused(
          "step",
          [&](Program& p) {
            std::erase_if(p.ops[inputs].accesses, [](const Access& access) { return access.role == Role::control; });
          },
          "does not count the loss");
      continue;
    }
    subject.refused(
        "step",
        [&](Program& p) {
          for (Access& access : p.ops[id].accesses) {
            if (access.role != Role::held) continue;
            const auto& buffers = subject.compiled.set.buffers;
            for (BufferId other = 0; other < buffers.size(); ++other) {
              if (other == access.buffer || !buffers[other].name.starts_with("held of")) continue;
              access.buffer = other;
              return;
            }
          }
        },
        "'");
  }
  CHECK(halves == 2 * (2 * 2 + 1));  // of two microbatches: attention and MLP of two layers, and the head's logits
}

TEST_CASE("an op of a block that does not name a port it reads or writes, or what its block keeps, is refused") {
  for (const auto& [how, rows] : subjects) {
    const Subject subject(how, rows, how == Recompute::none);
    for (const std::string_view phase : {"step", "eval"}) {
      const Program& program = subject.compiled.set.program(phase);
      size_t tried = 0;
      for (OpId id = 0; id < program.ops.size(); ++id) {
        const Op& op = program.ops[id];
        if (!runs_block(op.kind)) continue;
        for (size_t i = 0; i < op.accesses.size(); ++i) {
          const Access& access = op.accesses[i];
          constexpr std::array roles{Role::port, Role::d_port, Role::saved, Role::recomputed};
          if (std::find(roles.begin(), roles.end(), access.role) == roles.end()) continue;
          // The head's forward leaves what its backward makes again: nobody reads it.
          const bool unread = op.kind == OpKind::forward && subject.layout.model->predicts(op.block);
          if (unread && access.role == Role::port) continue;
          CAPTURE(phase, op.name, role_name(access.role), rows);
          subject.refused(
              phase, [&](Program& p) { p.ops[id].accesses.erase(p.ops[id].accesses.begin() + i); }, "'", 1);
          ++tried;
        }
      }
      CHECK(tried >= 20);
    }
  }
}

TEST_CASE("runs of an eval that do not end where ranks exchange something are refused") {
  const Subject subject(Recompute::none, GENERATE(false, true));
  size_t tried = 0;
  const Program& eval = subject.compiled.set.program("eval");
  for (const OpId id : subject.all("eval", OpKind::evaluate)) {
    const Op& op = eval.ops[id];
    CAPTURE(op.name);
    if (op.parts.end == subject.layout.model->blocks[op.block]->anatomy().all().end) continue;
    subject.refused(
        "eval", [&](Program& p) { ++p.ops[id].parts.end; }, "no run of parts");
    ++tried;
  }
  CHECK(tried >= 6);
}

TEST_CASE("an exchange among ranks that do not share blocks, or as another port, is refused") {
  const Subject subject(Recompute::none);
  const GroupId data = subject.compiled.set.find_group(data_axes);
  for (const OpId id : subject.all("step", OpKind::exchange)) {
    subject.refused(
        "step", [&](Program& p) { p.ops[id].group = data, p.ops[id].lane = 2; }, "do not share blocks");  // comm:dp
    subject.refused(
        "step", [&](Program& p) { p.ops[id].port = p.ops[id].port == 0 ? 1 : 0; }, "as another port", 1);
  }
}

TEST_CASE("shares of what a stage receives that are not brought together, or twice, are refused") {
  Setting s;
  s.tensor = 2, s.accumulation = s.reduce_every = 4, s.micro_batch = 1, s.schedule.stages = 2;
  const models::Model model = models::make_gpt2(
      {.layers = 2, .hidden = 16, .heads = 4, .sequence = 6, .vocab = 31, .tied = false, .degrees = {2}});
  const Pipeline pipeline(model, s, even_ends(model, 2));
  const std::vector<Compiled> stages = pipeline.compile(s);
  size_t tried = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const Program& step = stages[stage].set.program("step");
    for (OpId id = 0; id < step.ops.size(); ++id) {
      if (step.ops[id].kind != OpKind::gather_received) continue;
      ++tried;
      for (const bool twice : {false, true}) {
        ProgramSet set = stages[stage].set;
        Program& broken = program_of(set, "step");
        if (twice) {
          insert_op(broken, id, step.ops[id]);
        } else {
          for (Op& op : broken.ops) {  // who waited for it waits for what it waits for
            if (std::find(op.waits.begin(), op.waits.end(), id) == op.waits.end()) continue;
            op.waits.insert(op.waits.end(), step.ops[id].waits.begin(), step.ops[id].waits.end());
          }
          drop_op(broken, id);
        }
        CHECK_THROWS_WITH(verify(set, pipeline.layouts[stage]),
                          Contains(twice ? "together already" : "a gather is missing"));
      }
    }
  }
  CHECK(tried >= 4);
}

TEST_CASE("sums and matrices of slices that are exchanged among data-parallel ranks alone are refused") {
  for (const optimizer::OptimizerPtr& optimizer : {adafactor(false), muon()}) {
    Setting s;
    s.tensor = 2, s.ranks = 2, s.stage = 2, s.optimizer = optimizer;
    const Layout layout = make_layout(
        models::make_gpt2({.layers = 1, .hidden = 16, .heads = 4, .sequence = 6, .vocab = 31, .degrees = {2}}), s);
    const Compiled compiled = compile(layout, {"init", "step"});
    size_t tried = 0;
    const Program& step = compiled.set.program("step");
    for (OpId id = 0; id < step.ops.size(); ++id) {
      const OpKind kind = step.ops[id].kind;
      if (kind != OpKind::share_sums && kind != OpKind::collect && kind != OpKind::hand_out) continue;
      if (compiled.set.group(step.ops[id]).axes != (stage_axes)) continue;
      ++tried;
      ProgramSet set = compiled.set;
      Op& op = program_of(set, "step").ops[id];
      op.group = set.find_group(data_axes), op.lane = 2;  // comm:dp
      CHECK_THROWS_WITH(verify(set, layout), Contains("needs those of group tp.dp"));
    }
    CHECK(tried >= 2);
  }
}

TEST_CASE("an export without the parts of other ranks is refused") {
  const Subject subject(Recompute::none);
  const std::vector<OpId> gathers = subject.all("export", OpKind::gather_parts);
  REQUIRE(gathers.size() > 2);
  for (const OpId id : gathers)
    subject.refused(
        "export", [&](Program& p) { drop_op(p, id); }, "parts of all", 1);
}

TEST_CASE("an export with the parts of another unit, or from ranks that do not share blocks, is refused") {
  const Subject subject(Recompute::none);
  const std::vector<OpId> gathers = subject.all("export", OpKind::gather_parts);
  const Program& whole = subject.compiled.set.program("export");
  for (size_t i = 0; i < gathers.size(); ++i) {
    const OpId id = gathers[i];
    const uint32_t other = whole.ops[gathers[(i + 1) % gathers.size()]].units.at(0);
    CAPTURE(whole.ops[id].name, other);
    subject.refused(
        "export", [&](Program& p) { p.ops[id].units = {other}; }, "'", 1);
    subject.refused(
        "export",
        [&](Program& p) {
          p.ops[id].group = subject.compiled.set.find_group(data_axes), p.ops[id].lane = 2;  // comm:dp
        },
        "'", 1);
  }
}

}  // namespace zrt::tensor_faults_test
