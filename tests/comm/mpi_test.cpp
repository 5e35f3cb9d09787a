// Ranks as processes under mpirun, on one machine and as if on two: collectives, and every way in which a run can fail.
#include <cstdlib>

#include "catch.h"
#include "mpirun.h"

namespace zrt::testing::mpi_test {
namespace {

const std::string ranks_program = std::string(ZRT_BINARY_DIR) + "/mpi_ranks ";

JobResult run(const std::string& what, int ranks, bool two_machines) {
  return run_shell(mpirun(ranks) + (two_machines ? on_two_machines(ranks_program + what) : ranks_program + what));
}

// Tests run on one machine; with ZRT_FULL_TESTS, or where the network matters most, on two as well.
std::vector<bool> machines(bool both = false) {
  return both || std::getenv("ZRT_FULL_TESTS") ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

constexpr int ended_late = 124;  // of `timeout` in mpirun(), long before a time-out of the ranks

// All ranks end, and one of them says why, once.
void check_failure(const std::string& what, int ranks, const std::vector<std::string>& parts, bool both = false) {
  for (const bool two_machines : machines(both)) {
    const JobResult result = run(what, ranks, two_machines);
    INFO(what << (two_machines ? " on two machines\n" : "\n") << result.text);
    CHECK(result.code != 0);
    CHECK(result.code != ended_late);
    CHECK(count_of(result.text, "error of rank") == 1);
    // Each machine tells of its own ranks.
    const std::string own = two_machines ? "ended by another machine. Last calls here" : "error of rank";
    if (what == "stop") CHECK(count_of(result.text, own) == 1);
    for (const std::string& part : parts) CHECK(result.text.find(part) != std::string::npos);
  }
}

TEST_CASE("collectives of processes, on two groups at once, give ordered sums") {
  for (int ranks : {1, 4}) {
    const JobResult one = run("collectives", ranks, false);
    INFO(one.text);
    CHECK(one.code == 0);
    const std::string all = std::to_string(ranks);
    CHECK(one.text.find(all + " ranks agree, " + all + " on this machine") != std::string::npos);
  }
  const JobResult two = run("collectives", 3, true);
  INFO(two.text);
  CHECK(two.code == 0);
  CHECK(two.text.find("3 ranks agree, 2 on this machine") != std::string::npos);
}

TEST_CASE("groups of some of the ranks work at the same time, inside a machine and across two") {
  for (const bool two_machines : {false, true}) {
    const JobResult result = run("groups", 4, two_machines);
    INFO(result.text);
    CHECK(result.code == 0);
    CHECK(result.text.find(two_machines ? "agree, 2 ranks on this" : "agree, 4 ranks on this") != std::string::npos);
  }
}

TEST_CASE("what ends a group of some of the ranks ends its neighbours") {
  for (const bool two_machines : {false, true}) {
    const JobResult result = run("siblings", 4, two_machines);
    INFO(result.text);
    CHECK(result.code == 0);
    CHECK(result.text.find("all groups ended") != std::string::npos);
  }
}

TEST_CASE("processes that cut the run differently are told") {
  check_failure("partition", 4, {"rank 0 makes dp(0,1), dp(2,3) while rank 1 makes dp(0,2), dp(1,3)"});
}

TEST_CASE("a rank that throws ends all with its own reason") {
  check_failure("throw", 3, {"error of rank 1: its disk is full"}, true);
}

TEST_CASE("a rank that fails before it has a group ends all") {
  check_failure("early", 3, {"error of rank 1: rank 1 cannot read its file"});
}

TEST_CASE("calls that differ between processes are named") {
  check_failure("mismatch", 3, {"all_reduce \"sum 10\" of 1 elements", "rank 1 called barrier \"h.4\""});
}

TEST_CASE("what must be equal and is not ends all") {
  check_failure("unequal", 3, {"the kernel table differs between process 0", "and process 1"});
  check_failure("unequal_key", 3,
                {"the configuration differs between process 0 (\"zero_optimization\":{\"stage\":2) and process 2 "
                 "(\"zero_optimization\":{\"stage\":3)"});
}

TEST_CASE("a stopped rank is named, with the last calls of all") {
  check_failure("stop", 4,
                {"missing ranks: 1; waiting ranks: 0, 2, 3", "timed out after 5000 ms", "\"sum 10\"",
                 "#10 all_reduce \"sum 9\" "},
                true);
}

TEST_CASE("a rank in another exchange is named as missing") {
  check_failure("late", 3, {"missing ranks: 1; waiting ranks: 0, 2"});
}

TEST_CASE("a killed rank ends all") {
  for (const bool two_machines : machines()) {
    const JobResult result = run("kill", 4, two_machines);
    INFO(result.text);
    CHECK(result.code == 137);
    CHECK(result.code != ended_late);
  }
}

TEST_CASE("a rank that leaves without a word ends all") {
  for (const bool two_machines : machines()) {
    const JobResult result = run("leave", 4, two_machines);
    INFO(result.text);
    CHECK(result.code != 0);
    CHECK(result.code != ended_late);
  }
}

TEST_CASE("ranks that wait for one that has ended say so, without mpirun's help") {
  for (const std::string what : {"kill", "leave"}) {
    const JobResult result = run_shell(mpirun(4, "--enable-recovery") + ranks_program + what);
    INFO(what << '\n' << result.text);
    CHECK(result.text.find(": rank 1 (process ") != std::string::npos);
    CHECK(result.text.find(") has ended while rank ") != std::string::npos);
  }
}

}  // namespace
}  // namespace zrt::testing::mpi_test
