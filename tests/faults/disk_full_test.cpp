// A disk without room: nothing is committed, the message says what is needed and what is free, training goes on.
#include "faults/process.h"

namespace zrt::disk_full_test {

using namespace zrt::testing;

TEST_CASE("a disk that fills in one rank's shard costs that checkpoint and no more") {
  const RepeatedRun run("full_shard");
  Moments moments;
  for (int turn = 0; turn < 20; ++turn) {
    run.reset();
    const bool always = turn % 2 == 1;  // every save from there on; else that of step 3
    const Fault fault{"ENOSPC", 1 + moments.below(40), always ? "shard-00002" : "step_3.tmp/shard-00002", "write",
                      true};
    const Result result = run_command(with_fault(run.store().string(), fault) + run.train());
    INFO("seed " << moments.seed << ", call " << fault.at << "\n" << result.text);
    const bool struck = contains(result.text, "was not saved");
    if (!always && !struck) continue;  // the shard has fewer calls
    REQUIRE(struck);
    CHECK(contains(result.text, "rank 1: "));
    CHECK(contains(result.text, "shard-00002-model-"));
    CHECK(contains(result.text, "No space left on device; "));
    CHECK(contains(result.text, "are free there (the checkpoint needs "));
    CHECK(run.steps() == 40);
    CHECK(run.state() == run.expected);
    const auto left = require_whole(run.store());
    check_no_leftovers(run.path / "run");
    CHECK(left.count(3) == 0);
    CHECK(result.code == (always ? 1 : 0));
    CHECK(contains(result.text, "the last checkpoint could not be saved") == always);
  }
}

TEST_CASE("a limit on the size of files is a full disk, not the end of the process") {
  const RepeatedRun run("limit");
  // dash counts in 512 bytes: 100 KiB, less than a shard and more than every other file.
  const Result result = run_command("ulimit -f 200; " + run.train());
  INFO(result.text);
  CHECK(result.code == 1);
  CHECK(contains(result.text, "File too large; "));
  CHECK(contains(result.text, "are free there, but the limit for one file is lower (ulimit -f)"));
  CHECK(contains(result.text, "(the checkpoint needs "));
  CHECK(contains(result.text, "the last checkpoint could not be saved"));
  CHECK(run.steps() == 40);
  CHECK(run.state() == run.expected);
  CHECK(require_whole(run.store()).empty());
  run.check_clean();
}

TEST_CASE("a disk without room for a second checkpoint keeps the first, and training goes on") {
  const RepeatedRun run("tmpfs");
  const std::string out = run / "run";
  fs::create_directories(out);
  // A disk of 2 MiB; one checkpoint has 1.4. It is copied out before it vanishes with the shell.
  const Result result = run_command("unshare -Urm sh -c 'mount -t tmpfs -o size=2m none " + out + " || exit 77; " +
                                    run.train() + "; code=$?; cp -r " + out + " " + (run / "copy") + "; exit $code'");
  INFO(result.text);
  if (result.code == 77 || contains(result.text, "unshare: ")) {
    WARN("no disk can be mounted here; this test shows nothing");
    return;
  }
  fs::remove_all(out);
  fs::rename(run / "copy", out);
  CHECK(result.code == 1);
  CHECK(contains(result.text, "checkpoint of step 6 was not saved, the last one stays: "));
  CHECK(contains(result.text, "/checkpoints needs "));
  CHECK(contains(result.text, "are free; make room, or lower run.keep_last"));
  CHECK(run.steps() == 40);
  CHECK(run.state() == run.expected);
  const auto left = require_whole(run.store());
  CHECK(left.size() == 1);
  CHECK(left.count(3) == 1);
  run.check_clean();
}

TEST_CASE("an event that a full disk does not take is written with a later one, whole") {
  const RepeatedRun run("full_events");
  fs::create_directories(run / "run");
  const Result result = run_command(with_fault(run / "run", {"ENOSPC", 1, "run/events.jsonl", "write"}) + run.launch());
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(contains(result.text, "events.jsonl: cannot be written: No space left on device; events go to this log"));
  std::vector<std::string> events;
  for (const std::string& line : read_lines(run.path / "run/events.jsonl")) {
    events.push_back(nlohmann::json::parse(line)["event"]);
  }
  CHECK(events == std::vector<std::string>{"start", "exit", "end"});
  run.check_end();
}

}  // namespace zrt::disk_full_test
