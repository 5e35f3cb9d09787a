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

namespace {

// A run that has left a checkpoint of shared layers, whose new run is `out`.
struct OnDisk : RepeatedRun {
  explicit OnDisk(const std::string& name)
      : RepeatedRun(name, " --set pseudo_to_real.groups=1 --set run.checkpoint_interval=2", 4) {
    REQUIRE(run_command(train()).code == 0);
  }
  fs::path out() const { return path / "real"; }
  std::string command(const fs::path& to) const {
    return std::string(ZRT_BINARY_DIR) + "/zrt checkpoint delink " + (*this / "run") + " --optimizer rescale --out " +
           to.string();
  }
  std::string command() const { return command(out()); }
  Result faulted(const Fault& fault) const {
    fs::remove_all(out());
    fs::remove(*this / "calls");
    return run_command(with_fault(path.string(), fault, *this / "calls") + command());
  }
  size_t points() const {
    REQUIRE(faulted({"", 0, "", ""}).code == 0);
    const size_t count = read_lines(*this / "calls").size();
    CHECK(count > 20);
    return count;
  }
  void check_whole() const {
    const auto found = require_whole(out() / "checkpoints");
    CHECK((found.size() == 1 && found.contains(4)));
    CHECK(fs::exists(out() / "config.resolved.json"));
    check_no_leftovers(out());
  }
};

}  // namespace

TEST_CASE(
    "a delink on disk that is killed at any call leaves the new run whole or not at all, and the next one makes it") {
  const OnDisk run("delink_disk_kill");
  const size_t points = run.points();
  run.check_whole();
  size_t whole = 0;
  for (size_t at = 1; at <= points; ++at) {
    const Result killed = run.faulted({"kill", at, "", ""});
    INFO("killed at call " << at << " of " << points << ": " << read_lines(run / "calls").back());
    REQUIRE(killed.code == 137);
    if (fs::exists(run.out())) {
      run.check_whole();
      ++whole;
      continue;
    }
    const Result again = run_command(run.command());
    INFO(again.text);
    REQUIRE(again.code == 0);
    run.check_whole();
    CHECK(!fs::exists(run.path / ".real.delink.tmp"));
  }
  CHECK((whole > 0 && whole < 4));  // behind the last rename
}

TEST_CASE("a delink on disk for which the disk has no room or an error is told so and leaves nothing") {
  const OnDisk run("delink_disk_full");
  const size_t points = run.points();
  size_t told = 0;
  for (size_t at = 1; at <= points; ++at) {
    const Result failed = run.faulted({at % 2 == 0 ? "ENOSPC" : "EIO", at, "", ""});
    INFO("call " << at << " of " << points << ": " << read_lines(run / "calls").at(at - 1) << "\n" << failed.text);
    if (fs::exists(run.out())) run.check_whole();
    CHECK(!fs::exists(run.path / ".real.delink.tmp"));
    if (failed.code == 0) {
      REQUIRE(fs::exists(run.out()));  // the call was not needed, such as that for `latest`
      continue;
    }
    ++told;
    CHECK(failed.code == 1);
    CHECK(contains(failed.text, at % 2 == 0 ? "No space left on device" : "Input/output error"));
  }
  CHECK(told > points / 2);
  // A disk that is too small is refused before anything is written.
  const fs::path small = run.path / "small";
  fs::create_directories(small);
  const Result full =
      run_command("unshare -Urm sh -c 'mount -t tmpfs -o size=1m none " + small.string() + " || exit 77; " +
                  run.command(small / "real") + "; code=$?; ls -A " + small.string() + "; exit $code'");
  if (full.code == 77 || contains(full.text, "unshare: ")) {
    WARN("no disk can be mounted here: of one that is too small this test shows nothing");
    return;
  }
  INFO(full.text);
  CHECK(full.code == 1);
  CHECK(contains(full.text, "the checkpoint needs"));
  CHECK(!contains(full.text, "real.delink.tmp"));
}

}  // namespace zrt::delink_kill_test
