// A save that is killed at every call that changes a file.
#include "tests/faults/save_points.h"

namespace zrt::save_kill_test {

using namespace zrt::testing;

TEST_CASE("a run killed at any call of a save leaves the old or the new checkpoint, each whole, and goes on from it") {
  const Base base;
  Moments moments;
  size_t old = 0, renewed = 0;
  for (const std::string& place : places) {
    const size_t points = base.calls(place, "--steps 6").size();
    REQUIRE(points > 15);
    const auto restarted = moments.some(place[0] == '!' || full_tests() ? points : 5, points);
    for (size_t at = 1; at <= points; ++at) {
      base.reset();
      const Result killed = base.faulted({"kill", at, place, ""}, "--steps 6");
      const auto left = require_whole(base.store());
      INFO("seed " << moments.seed << ", killed at call " << at << " of " << points << ": "
                   << read_lines(base / "log").back() << "\n"
                   << killed.text);
      REQUIRE(killed.code == 137);
      REQUIRE(left.count(4) == 1);
      for (const auto& [step, held] : left) CHECK(held == base.files.at(step));
      ++(left.count(6) ? renewed : old);
      if (std::count(restarted.begin(), restarted.end(), at)) check_restart(base, "--steps 8");
    }
  }
  CHECK(old > 100);
  CHECK(renewed > 5);
}

TEST_CASE("a save that replaces a broken checkpoint of its step, killed at any call, leaves what is whole") {
  const Base base;
  const auto reset = [&] {
    base.reset();
    fs::resize_file(base.store() / "step_4/manifest.json", 100);
  };
  for (const std::string variables : {"", "ZRT_FAULT_NO_EXCHANGE=1"}) {
    const std::string more = "--steps 4";
    reset();
    fs::remove(base.path / "log");
    const Fault listed{"", 0, "!shard-", "", false, variables};
    REQUIRE(base.run(with_fault(base.store().string(), listed, base / "log"), more).code == 0);
    CHECK(require_whole(base.store()).at(4) == base.files.at(4));
    const size_t points = read_lines(base / "log").size();
    size_t before = 0, after = 0;
    for (size_t at = 1; at <= points; ++at) {
      reset();
      const Result killed = base.faulted({"kill", at, "!shard-", "", false, variables}, more);
      INFO(variables << " killed at call " << at << " of " << points << ": " << read_lines(base / "log").back() << "\n"
                     << killed.text);
      REQUIRE(killed.code == 137);
      const Result again = base.run("", more);
      INFO(again.text);
      REQUIRE(again.code == 0);
      ++(contains(again.text, "going on after step 4 ") ? after : before);
      const auto left = require_whole(base.store());
      REQUIRE(left.count(2) == 1);
      REQUIRE(left.count(4) == 1);
      CHECK(left.at(4) == base.files.at(4));
      check_no_leftovers(base.path / "run");
    }
    CHECK(before > 5);
    CHECK(after > 5);
  }
}

}  // namespace zrt::save_kill_test
