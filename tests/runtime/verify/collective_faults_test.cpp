// Ranks whose programs differ: collectives that do not match, and circles of waiting, are found and named.
#include "catch.h"
#include "core/error.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/subjects.h"
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::collective_faults_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::ProgramSet;

namespace {

// Returns what verify_collectives says of ranks with the given sets.
std::string verdict(const std::vector<const ProgramSet*>& ranks) {
  try {
    runtime::verify_collectives(ranks);
  } catch (const core::ProgramError& error) {
    return error.what();
  }
  return "";
}

bool communicates(const ProgramSet& set, const Op& op) {
  return set.lanes[op.lane].kind == runtime::LaneKind::comm;
}

// One rank of a subject has other programs than the rest.
std::string verdict_of_one(const Subject& subject, const ProgramSet& changed, size_t rank) {
  std::vector<const ProgramSet*> ranks(static_cast<size_t>(subject.layout.mesh.data()), &subject.set);
  ranks[rank] = &changed;
  return verdict(ranks);
}

// Changes the step of one rank at every collective and expects a message with both calls.
void check_each(const char* what, const std::function<bool(ProgramSet& set, Program& step, OpId id)>& change,
                bool names_it = true) {
  size_t tried = 0;
  for (const auto& subject : subjects()) {
    const size_t count = subject->set.program("step").ops.size();
    for (OpId id = 0; id < count; ++id) {
      if (!communicates(subject->set, subject->set.program("step").ops[id])) continue;
      ProgramSet changed = subject->set;
      if (!change(changed, program_of(changed, "step"), id)) continue;
      const size_t rank = tried++ % static_cast<size_t>(subject->layout.mesh.data());
      const std::string message = verdict_of_one(*subject, changed, rank);
      INFO(what << ", " << subject->name << ", rank " << rank << ", '" << subject->set.program("step").ops[id].name
                << "': " << message);
      CHECK(message.find("on lane comm:dp") != std::string::npos);
      CHECK(message.find("' on one and '") != std::string::npos);
      // A line for each of the two ranks.
      const size_t first = message.find("\nRank "), second = message.find("\nRank ", first + 1);
      REQUIRE(second != std::string::npos);
      CHECK(message.find("operand: '", first) != std::string::npos);
      CHECK(message.find("among the ranks of 'dp", first) != std::string::npos);
      for (const size_t line : {first, second}) {
        const size_t beside = message.find("Neighbours: ", line);
        REQUIRE(beside != std::string::npos);
        CHECK(message.find('\'', beside) < message.find(" behind.", beside));
      }
      if (names_it) CHECK(message.find(subject->set.program("step").ops[id].name) != std::string::npos);
    }
  }
  CHECK(tried > 100);
}

// True where two collectives exchange the same, as the reductions of a unit in two windows behind the first may.
bool alike(const Op& a, const Op& b) {
  return a.kind == b.kind && a.units == b.units && a.accumulate == b.accumulate && a.name == b.name &&
         std::equal(a.accesses.begin(), a.accesses.end(), b.accesses.begin(), b.accesses.end(),
                    [](const auto& x, const auto& y) { return x.buffer == y.buffer && x.slot.first == y.slot.first; });
}

// The next collective on the lane of `id` in the same segment, which is not the same collective.
OpId next_on_lane(Program& step, OpId id) {
  const runtime::Segment& segment = segment_of(step, id);
  for (OpId other = id + 1; other < segment.first + segment.count; ++other) {
    if (step.ops[other].lane == step.ops[id].lane) return alike(step.ops[other], step.ops[id]) ? id : other;
  }
  return id;
}

}  // namespace

TEST_CASE("equal programs match, as one set and as copies") {
  for (const auto& subject : subjects()) {
    std::vector<ProgramSet> copies(static_cast<size_t>(subject->layout.mesh.data()), subject->set);
    std::vector<const ProgramSet*> ranks;
    for (const ProgramSet& copy : copies) ranks.push_back(&copy);
    INFO(subject->name);
    CHECK(verdict(ranks) == "");
    CHECK(verdict_of_one(*subject, subject->set, 0) == "");
  }
}

TEST_CASE("two collectives that one rank makes in the other order are named") {
  check_each("swapped", [](ProgramSet&, Program& step, OpId id) {
    const OpId other = next_on_lane(step, id);
    if (other != id) swap_ops(step, id, other);
    return other != id;
  });
}

TEST_CASE("a collective that one rank leaves out or makes twice is named") {
  check_each("left out", [](ProgramSet&, Program& step, OpId id) {
    drop_op(step, id);
    return true;
  });
  check_each("twice", [](ProgramSet&, Program& step, OpId id) {
    insert_op(step, id, step.ops[id]);
    return true;
  });
}

TEST_CASE("a collective of another size, kind or unit on one rank is named") {
  // Another op of the buffer may be the first to show it.
  check_each(
      "size",
      [](ProgramSet& set, Program& step, OpId id) {
        set.buffers[step.ops[id].accesses.back().buffer].bytes += 64;
        return true;
      },
      false);
  check_each("kind", [](ProgramSet&, Program& step, OpId id) {
    step.ops[id].kind = step.ops[id].kind == OpKind::gather ? OpKind::gather_grad : OpKind::gather;
    return true;
  });
  check_each("unit", [](ProgramSet&, Program& step, OpId id) {
    step.ops[id].units.push_back(0);
    return true;
  });
}

namespace {

// A collective inside groups and the next one of another lane, which no wait orders.
std::pair<OpId, OpId> independent_pair(const ProgramSet& set, const Program& step, const char* other_group) {
  for (OpId a = 0; a + 1 < step.ops.size(); ++a) {
    for (OpId b = a + 1; b < step.ops.size(); ++b) {
      if (set.lanes[step.ops[a].lane].group != "dp.inner" || set.lanes[step.ops[b].lane].group != other_group) continue;
      bool between = false;  // an op of either lane, over which a swap would change the order of that lane
      for (OpId c = a + 1; c < b; ++c) {
        between = between || step.ops[c].lane == step.ops[a].lane || step.ops[c].lane == step.ops[b].lane;
      }
      if (!between) return {a, b};
    }
  }
  throw std::runtime_error("no pair of lanes in this step");
}

// Programs with two collectives on two lanes and nothing else.
ProgramSet two_collectives(const Subject& subject, const char* other_group, bool inner_first) {
  ProgramSet set = subject.set;
  Program& step = program_of(set, "step");
  auto [a, b] = independent_pair(set, step, other_group);
  Op inner = step.ops[a], other = step.ops[b];
  inner.waits.clear();
  other.waits.clear();
  step.ops = inner_first ? std::vector<Op>{inner, other} : std::vector<Op>{other, inner};
  step.ops[1].waits = {0};
  step.segments = {{0, 2, 1}};
  return set;
}

}  // namespace

TEST_CASE("a circle over two lanes is found where every rank's own order is sound") {
  for (const auto& subject : subjects()) {
    if (subject->layout.mesh.inner() == 1) continue;
    const int inner = subject->layout.mesh.inner();
    const auto ranks = static_cast<size_t>(subject->layout.mesh.data());
    INFO(subject->name);
    SECTION("between groups and inside them: a chain of ranks that only closes when all four corners differ" +
            subject->name) {
      const ProgramSet first = two_collectives(*subject, "dp.outer", true);
      const ProgramSet last = two_collectives(*subject, "dp.outer", false);
      std::vector<const ProgramSet*> sets(ranks, &first);
      CHECK(verdict(sets) == "");
      // Rank 1 in the other order holds up others, but not for ever.
      sets[1] = &last;
      CHECK(verdict(sets) == "");
      // 0 → (inner) 1 → (outer) 1 + inner → (inner) inner → (outer) 0.
      sets[static_cast<size_t>(inner)] = &last;
      const std::string message = verdict(sets);
      INFO(message);
      CHECK(message.find("would stand still for ever") != std::string::npos);
      CHECK(message.find("lane comm:dp.inner waits for") != std::string::npos);
      CHECK(message.find("lane comm:dp.outer waits for") != std::string::npos);
      for (const Op& op : first.program("step").ops) CHECK(message.find('\'' + op.name + '\'') != std::string::npos);
    }
    SECTION("of all and inside groups: two ranks are enough" + subject->name) {
      const ProgramSet first = two_collectives(*subject, "dp", true);
      const ProgramSet last = two_collectives(*subject, "dp", false);
      std::vector<const ProgramSet*> sets(ranks, &first);
      sets[1] = &last;
      const std::string message = verdict(sets);
      INFO(message);
      CHECK(message.find("would stand still for ever") != std::string::npos);
      for (const Op& op : first.program("step").ops) CHECK(message.find('\'' + op.name + '\'') != std::string::npos);
    }
  }
}

}  // namespace zrt::collective_faults_test
