// Programs that order their ops but mean something else are refused: weights, gradients, states and other ranks' calls.
#include "runtime/verify/verifier.h"
#include "tests/runtime/verify/fixture.h"

namespace zrt::verifier_meaning_test {

using namespace zrt;
using namespace zrt::testing;
using Fixture = VerifierFixture;
using runtime::Use;

namespace {

// All ops of a step with this name, in order.
std::vector<OpId> all_named(const runtime::Program& step, std::string_view name) {
  std::vector<OpId> ids;
  for (OpId id = 0; id < step.ops.size(); ++id) {
    if (step.ops[id].name == name) ids.push_back(id);
  }
  return ids;
}

}  // namespace

TEST_CASE("weights that an update left in parts are brought together before any other program reads them") {
  Fixture f(1);
  SECTION("by a program of its own") {
    std::erase_if(f.set.programs, [](const runtime::Program& program) { return program.phase == "refresh"; });
    f.rejects({"'eval'", "'forward embed'", "'update embed.weight' of a program before", "a gather is missing"});
  }
  SECTION("all of them") {
    runtime::Program& refresh = program_of(f.set, "refresh");
    REQUIRE(refresh.ops.size() > 1);
    drop_op(refresh, 0);
    f.rejects({"'refresh'", "'weight of embed.weight'", "'update embed.weight'", "not whole"});
  }
  SECTION("by the next step itself") {
    drop_op(f.step(), find_op(f.step(), "gather updated linear.1.weight"));
    f.rejects({"'step'", "'forward linear.1'", "'update linear.1.weight' of a program before"});
  }
}

TEST_CASE("gradients are defined once and then added to") {
  SECTION("a backward that overwrites what another microbatch left") {
    Fixture f(2, 4, 4);
    OpId last = 0;
    for (OpId i = 0; i < f.step().ops.size(); ++i) last = f.step().ops[i].name == "backward linear.1" ? i : last;
    f.step().ops[last].accumulate[0] = 0;
    f.rejects({"'backward linear.1'", "add to", "linear.1.weight"});
  }
  SECTION("a reduction before the last backward of its window") {
    Fixture f(2, 4, 4);
    OpId last = 0;
    for (OpId i = 0; i < f.step().ops.size(); ++i) last = f.step().ops[i].name == "backward linear.1" ? i : last;
    swap_ops(f.step(), last, find_op(f.step(), "reduce linear.1.weight"));
    // With the waits that order the two, only the count is wrong.
    CHECK_THROWS_WITH(f.check_meaning(),
                      Catch::Contains("'reduce linear.1.weight' (turn 0)") &&
                          Catch::Contains("reduces the gradient of 'linear.1.weight' after 3 backwards, the last of "
                                          "them 'backward linear.1' (turn 0); a window has 4"));
  }
  SECTION("a reduction that adds to what the step before left") {
    Fixture f;
    f.op("reduce linear.1.weight").accumulate[0] = 1;
    f.rejects({"'reduce linear.1.weight'", "define", "linear.1.weight"});
  }
}

TEST_CASE("a program that leaves a state without a value is rejected") {
  Fixture f;
  runtime::Program& init = program_of(f.set, "init");
  drop_op(init, find_op(init, "init linear.1.weight"));
  f.rejects({"'init'", "of linear.1.weight'", "without a value"});
}

TEST_CASE("ranks whose collectives differ are rejected with both calls") {
  Fixture one(3, 6, 1, 3), other(3, 6, 1, 3);
  CHECK_NOTHROW(runtime::verify_collectives({&one.set, &one.set, &other.set}));
  auto rejects = [&](const std::vector<std::string>& parts) {
    std::string error;
    try {
      runtime::verify_collectives({&one.set, &one.set, &other.set});
    } catch (const core::ProgramError& e) {
      error = e.what();
    }
    INFO(error);
    for (const std::string& part : parts) CHECK(error.find(part) != std::string::npos);
  };
  SECTION("order") {
    swap_ops(other.step(), find_op(other.step(), "gather linear.0.weight for forward linear.0"),
             find_op(other.step(), "gather linear.0.bias for forward linear.0"));
    rejects({"ranks 0 and 2", "comm:dp", "'step'", "gather linear.0.weight", "gather linear.0.bias"});
  }
  SECTION("size") {
    other.buffer("local grad of linear.1.weight").bytes += 64;
    rejects({"ranks 0 and 2", "reduce linear.1.weight"});
  }
  SECTION("one missing at the end") {
    other.step().segments.back().count = 0;
    rejects({"ranks 0 and 2", "'share control", "'none'"});
  }
  SECTION("a missing program") {
    other.set.programs.pop_back();
    rejects({"ranks 0 and 2", "4 and 3 programs"});
  }
}

TEST_CASE("a copy of weights that an update has overtaken is rejected") {
  Fixture f;
  const Op late = f.step().ops[all_named(f.step(), "forward linear.1").back()];
  insert_op(f.step(), static_cast<OpId>(f.step().ops.size() - 1), late);
  CHECK_THROWS_WITH(f.check_meaning(), Catch::Contains("'forward linear.1'") &&
                                           Catch::Contains("'update linear.1.weight' (turn 0)") &&
                                           Catch::Contains("has updated"));
}

TEST_CASE("gradients that are summed in another order, over windows, or lost, are rejected") {
  SECTION("another order") {
    Fixture f(2, 4, 4);
    const auto ids = all_named(f.step(), "backward linear.1");
    swap_ops(f.step(), ids.at(1), ids.at(2));
    f.rejects({"'backward linear.1'", "in order of microbatches"});
  }
  Fixture f(2, 4, 2);
  drop_op(f.step(), find_op(f.step(), "reduce linear.1.weight"));
  Op& op = f.step().ops[all_named(f.step(), "backward linear.1").at(2)];
  SECTION("over windows") {
    op.accumulate[0] = 1;
    f.access(op, Role::local_grad).use = Use::update;
    CHECK_THROWS_WITH(f.check_meaning(),
                      Catch::Contains("'backward linear.1'") && Catch::Contains("of another window"));
  }
  SECTION("lost") {
    CHECK_THROWS_WITH(f.check_meaning(),
                      Catch::Contains("'backward linear.1'") && Catch::Contains("which no op has used"));
  }
}

}  // namespace zrt::verifier_meaning_test
