// Broken programs are refused: reads before writes, missing ops, bytes that two need, waits, references and operands.
#include "runtime/verify/verifier.h"

#include "runtime/program/placement_rules.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/verify/fixture.h"

namespace zrt::verifier_test {

using namespace zrt;
using namespace zrt::testing;
using Fixture = VerifierFixture;
using runtime::Use;

TEST_CASE("a compiled program passes") {
  for (int stage = 0; stage < 4; ++stage) {
    Fixture f(stage);
    CHECK_NOTHROW(runtime::verify(f.set, f.layout));
  }
}

TEST_CASE("an op that reads a buffer before it is written is rejected") {
  SECTION("because two ops were swapped") {
    Fixture f;
    swap_ops(f.step(), find_op(f.step(), "forward linear.0"), find_op(f.step(), "forward linear.1"));
    f.rejects({"'forward linear.1'", "'output of linear.0'", "before it is written"});
  }
  SECTION("because the write is missing") {
    Fixture f;
    drop_op(f.step(), find_op(f.step(), "gather linear.1.weight for forward linear.1"));
    f.rejects({"'forward linear.1'", "'gathered linear.1.weight for forward linear.1'", "before it is written"});
  }
  SECTION("because another buffer took its bytes") {
    Fixture f;
    f.buffer("output of linear.2").offset = f.buffer("output of linear.0").offset;
    f.rejects({"'backward linear.1'", "'output of linear.0'", "another buffer took its bytes"});
  }
  SECTION("because the op asks for the wrong buffer") {
    Fixture f;
    const Access late = f.access(f.op("backward head"), Role::d_input);
    f.access(f.op("forward linear.1"), Role::input).buffer = late.buffer;
    f.rejects({"'forward linear.1'", "'gradient of output of linear.2'", "before it is written"});
  }
}

TEST_CASE("an op whose reduction, backward or batch is missing is rejected") {
  SECTION("reduction") {
    Fixture f;
    drop_op(f.step(), find_op(f.step(), "reduce linear.1.weight"));
    f.rejects({"'reduce linear.1.weight'", "'grad of linear.1.weight'", "before it is written"});
  }
  SECTION("reduction of a later window") {
    Fixture f;
    OpId id = 0;
    for (OpId i = 0; i < f.step().ops.size(); ++i) id = f.step().ops[i].name == "reduce linear.1.weight" ? i : id;
    drop_op(f.step(), id);
    f.rejects({"gradient of 'linear.1.weight'"});
  }
  SECTION("backward") {
    Fixture f;
    drop_op(f.step(), find_op(f.step(), "backward linear.1"));
    f.rejects({"'reduce linear.1.weight'", "'local grad of linear.1.weight'", "before it is written"});
  }
  SECTION("batch of the later microbatches") {
    Fixture f;
    const runtime::Segment& segment = f.step().segments.at(2);
    OpId id = segment.first;
    while (f.step().ops[id].kind != runtime::OpKind::load_batch) ++id;
    drop_op(f.step(), id);
    f.rejects({"'backward head' (turn 0)", "'targets'", "another buffer took its bytes", "'gather linear.1.bias"});
    // Its bytes are of another microbatch where they are still there.
    const uint64_t behind = f.set.bytes(core::Tier::device) + 2 * core::red_zone_bytes;
    f.buffer("tokens").offset = behind;
    f.buffer("targets").offset = behind + f.buffer("tokens").stride();
    f.set.arena_bytes[0] = behind + 2 * f.buffer("tokens").stride();
    f.rejects({"'forward embed'", "'tokens'", "microbatch 1", "'batch' (turn 0) wrote microbatch 0"});
  }
}

TEST_CASE("a slot that does not exist is rejected, also as the distance from turn to turn") {
  Fixture f;
  SECTION("in the first turn") {
    f.access(f.op("forward linear.1"), Role::input).slot = {1, 0};
    f.rejects({"'forward linear.1'", "'output of linear.0'", "slot 1 of 1 does not exist"});
  }
  SECTION("from turn to turn") {
    f.access(f.repeated("batch"), Role::tokens).slot = {0, 1};
    f.rejects({"'batch'", "'tokens'", "slot 1 of 1 does not exist"});
  }
}

TEST_CASE("bytes that two buffers need at once are rejected") {
  Fixture f;
  SECTION("a state and a transient buffer, even where no program uses both") {
    f.buffer("eval tokens").offset = f.buffer("exp_avg of head.weight").offset;
    f.rejects({"'exp_avg of head.weight'", "'eval tokens'", "kept between programs"});
  }
  SECTION("two buffers of one op") {
    f.buffer("forward workspace of linear.0").offset = f.buffer("output of embed").offset;
    f.rejects({"'forward linear.0'", "'forward workspace of linear.0'", "'output of embed'"});
  }
  SECTION("a buffer behind the arena") {
    f.buffer("output of linear.0").offset = f.set.bytes(core::Tier::device);
    f.rejects({"'output of linear.0'", "behind the arena"});
  }
}

TEST_CASE("ops that are not ordered are rejected with both ops and the buffer") {
  Fixture f;
  SECTION("a read on another lane than its write") {
    f.op("forward embed").waits.clear();
    f.rejects({"'forward embed'", "'tokens'", "'batch'", "a wait is missing"});
  }
  SECTION("a write on another lane than a read before it") {
    f.repeated("batch").waits.clear();
    f.rejects({"'batch'", "'tokens'", "'backward embed'", "a wait is missing"});
  }
}

TEST_CASE("a buffer that is smaller than its ops need is rejected") {
  Fixture f;
  f.buffer("forward workspace of linear.0").bytes -= 1;
  f.rejects({"'forward linear.0'", "uses 200 bytes", "'forward workspace of linear.0'", "has 199"});
}

TEST_CASE("references that lead nowhere are rejected") {
  Fixture f;
  SECTION("wait") {
    f.op("forward embed").waits.push_back(5000);
    f.rejects({"'forward embed'", "waits for op 5000"});
  }
  SECTION("lane") {
    f.op("forward embed").lane = 4;
    f.rejects({"'forward embed'", "lane 4 of 4"});
  }
  SECTION("buffer") {
    f.op("forward embed").accesses.front().buffer = 5000;
    f.rejects({"'forward embed'", "buffer 5000"});
  }
}

TEST_CASE("an op that names other buffers than its kind works on is rejected") {
  SECTION("one of a role that it does not have") {
    Fixture f;
    f.access(f.op("forward linear.1"), Role::input).role = Role::d_output;
    f.rejects({"'forward linear.1' (forward) of 'step'", "reads a buffer as its gradient of output",
               "which such an op does not have"});
  }
  SECTION("one that it uses as it never does") {
    Fixture f;
    f.access(f.op("norm linear.1.weight"), Role::grad).use = Use::update;
    f.rejects({"'norm linear.1.weight' (norm)", "updates a buffer as its gradient", "which such an op does not do"});
  }
  SECTION("none where it needs one") {
    Fixture f;
    std::erase_if(f.op("update linear.1.weight").accesses, [](const Access& a) { return a.role == Role::grad; });
    f.rejects({"'update linear.1.weight' (update)", "names 0 buffers as its gradient", "1 units", "it needs 1"});
  }
  SECTION("more than it has units") {
    Fixture f;
    Op& gather = f.op("gather linear.1.weight for forward linear.1");
    const Access again = f.access(gather, Role::weight);
    for (size_t i = 0; i < gather.units.size(); ++i) gather.accesses.push_back(again);
    f.rejects({"(gather)", "buffers as its weight", "it needs at most"});
  }
}

TEST_CASE("a block that keeps keys and values from token to token is rejected without a cache") {
  const models::Model model = make_small(ModelType::gpt2, {});
  const runtime::Layout layout = make_layout(model, {});
  runtime::ProgramSet set = runtime::compile(layout, {"load", "decode"}).set;
  size_t with_cache = 0;
  runtime::Program& decode = program_of(set, "decode");
  for (Op& op : decode.ops) {
    const std::vector<Access> whole = op.accesses;
    if (std::erase_if(op.accesses, [](const Access& access) { return access.role == Role::cache; }) == 0) continue;
    ++with_cache;
    CHECK_THROWS_WITH(runtime::verify(set, layout), Catch::Contains("'" + op.name + "'") &&
                                                        Catch::Contains("names no buffer as its cache") &&
                                                        Catch::Contains("Neighbours: '"));
    op.accesses = whole;
  }
  CHECK(with_cache == runtime::layer_blocks(model).size());
}

TEST_CASE("an op in a program that has no place for it is rejected") {
  Fixture f;
  auto& exported = program_of(f.set, "export");
  Op norm = f.op("norm linear.0.weight");
  norm.waits.clear();  // for ops of another program
  exported.ops[find_op(exported, "export linear.0.weight")] = norm;
  f.rejects({"'norm linear.0.weight' (norm)", "behind 'export", "has no place in the program 'export'",
             "it may stand in step"});
}

TEST_CASE("phases that do not exist or cannot be compiled are refused") {
  const models::Model model = make_toy(1, 12, 17, 5, false, false);
  Setting s;
  s.compute = core::DType::bf16;
  const runtime::Layout layout = make_layout(model, s);
  CHECK_THROWS_AS(runtime::compile(layout, {"init", "train"}), core::ProgramError);
  // Without training there are no fp32 weights to save.
  CHECK_THROWS_AS(runtime::compile(layout, {"init", "export"}), core::ProgramError);
  CHECK_NOTHROW(runtime::compile(layout, {"init", "eval"}));
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "eval"});
  CHECK_THROWS_AS(compiled.set.program("step"), core::ProgramError);
}

TEST_CASE("a program of many layers and microbatches stays small") {
  const models::Model model = make_toy(96, 12, 17, 5, false, false);
  auto compile = [&](int stage, uint32_t microbatches, uint32_t every) {
    Setting s;
    s.ranks = 8, s.stage = stage, s.accumulation = microbatches, s.reduce_every = every, s.overlap = true;
    const runtime::Layout layout = make_layout(model, s);
    return runtime::compile(layout, {"init", "step", "eval", "export"});
  };
  const runtime::Compiled many = compile(3, 64, 1);
  const size_t ops = many.set.program("step").ops.size();
  CAPTURE(ops);
  // Three microbatches written out, each with a forward, a backward, two gathers and a reduction per block; norm and
  // update per unit.
  CHECK(ops < 3 * 98 * 5 + 2 * 98 + 10);
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(compile(stage, 512, 1).set.program("step").ops.size() == compile(stage, 8, 1).set.program("step").ops.size());
  }
  CHECK(many.set.program("step").ops.size() == ops);
  CHECK(compile(3, 512, 1).set.buffers.size() == many.set.buffers.size());
  // The microbatches of one window repeat too where gradients stay whole.
  CHECK(compile(0, 512, 512).set.program("step").ops.size() == compile(0, 8, 8).set.program("step").ops.size());
}

}  // namespace zrt::verifier_test
