// A run that delinks its layers, killed at every call that changes a file and at moments in between: it goes on from
// the shared or from the delinked layers, and ends with the bits of one that nobody disturbed.
#include "faults/process.h"

namespace zrt::delink_kill_test {

using namespace zrt::testing;

namespace {

constexpr const char* delinks =
    " --set run.checkpoint_interval=2 --set run.keep_last=9 --set pseudo_to_real.groups=1"
    " --set pseudo_to_real.optimizer=rescale --set pseudo_to_real.rewarm_steps=2 --set pseudo_to_real.delink.at_step=4";

}  // namespace

TEST_CASE("a run killed at any call by which it writes goes on to the same bits, whether it has delinked or not") {
  const RepeatedRun run("delink_kill", delinks, 6);
  const std::string calls = run / "calls";
  REQUIRE(run_command(with_fault(run.path.string(), {"", 0, "!shard-"}, calls) + run.train()).code == 0);
  const size_t points = read_lines(calls).size();
  size_t before = 0, behind = 0;
  for (size_t at = 1; at <= points; ++at) {
    run.reset();
    const Result killed = run_command(with_fault(run.path.string(), {"kill", at, "!shard-"}) + run.train());
    INFO("killed at call " << at << " of " << points << ": " << read_lines(calls)[at - 1] << "\n" << killed.text);
    REQUIRE(killed.code == 137);
    ++(contains(killed.text, "are delinked") ? behind : before);
    if (fs::exists(run.store())) require_whole(run.store());
    const Result again = run_command(run.train());
    INFO(again.text);
    REQUIRE(again.code == 0);
    CHECK(run.state() == run.expected);
    CHECK(run.steps() == run.last);
    require_whole(run.store());
  }
  CHECK(before > 20);
  CHECK(behind > 20);
}

TEST_CASE("a run killed while its delinked layers are loaded is started again and ends with the same bits") {
  const RepeatedRun run("delink_load", delinks, 60);  // long enough to be still there
  Moments moments;
  repeat(full_tests() ? 30 : 5, [&](int) {
    run.reset();
    fs::remove(run.log());  // of the time before
    Process process(run.launch(), run.log());
    await([&] { return contains(process.text(), "are delinked") || process.ended(); });
    sleep_for(moments.between(0, 0.02));
    const auto ranks = process.ranks();
    const bool killed = !ranks.empty() && kill(ranks[0], SIGKILL) == 0;
    const int code = process.wait();
    INFO("seed " << moments.seed << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    return killed && contains(process.text(), "launch: restart");
  });
}

}  // namespace zrt::delink_kill_test
