// Others do something to the folder of a run: it cannot be written, is renamed, removed or replaced. Also what a killed
// run leaves is tested.
#include <sys/stat.h>

#include "faults/process.h"
#include "temporary_folder.h"

namespace zrt::run_folder_test {

using namespace zrt::testing;

namespace {

// A run that has stopped itself before it writes line `line` of metrics.jsonl, with what was done to its folder since.
Result changed_at_line(const RepeatedRun& run, size_t line, const std::function<void()>& change) {
  const Fault fault{"stop", line, "run/metrics.jsonl", "write"};
  Process process(with_fault(run / "run", fault) + run.train(), run.log());
  int status = 0;
  REQUIRE(waitpid(process.pid(), &status, WUNTRACED) == process.pid());
  INFO(process.text());
  REQUIRE(WIFSTOPPED(status));
  change();
  process.send(SIGCONT);
  const int code = process.wait();
  return {code, process.text()};
}

void check_whole(const RepeatedRun& run, const std::string& folder) {
  CHECK(read_json(run / folder + "/summary.json")["state_xxh3"] == run.expected);
  CHECK(read_lines(run / folder + "/metrics.jsonl").size() == run.last);
  CHECK(require_whole(run.path / folder / "checkpoints").count(static_cast<int64_t>(run.last)) == 1);
  for (const char* name : {"memory.json", "config.resolved.json", "heartbeat"})
    CHECK(fs::exists(run.path / folder / name));
  check_no_leftovers(run.path / folder);
}

const std::string trace = " --set run.trace=true --set 'run.trace_steps=[20,21]'";

}  // namespace

TEST_CASE("a run that cannot save its checkpoints ends before its first step and says why") {
  const RepeatedRun run("unwritable");
  const auto refused = [&](const std::string& command) {
    const Result result = run_command(command);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(contains(result.text, "checkpoints cannot be saved: "));
    CHECK(contains(result.text, "choose another folder with run.out"));
    CHECK(run.steps() == 0);
    return result.text;
  };
  fs::create_directories(run / "run");
  SECTION("a file lies where the folder should be") {
    std::ofstream(run.path / "run/checkpoints") << "mine";
    CHECK(contains(refused(run.train()), "run/checkpoints/"));
    CHECK(read_file(run.path / "run/checkpoints") == "mine");
  }
  SECTION("a file lies there, and nothing is saved before the last step") {
    std::ofstream(run.path / "run/checkpoints") << "mine";
    refused(run.train() + " --set run.checkpoint_interval=0");
  }
  SECTION("the system refuses to make files there") {
    fs::create_directories(run.store());
    const std::string text = refused(with_fault(run.store().string(), {"EIO", 1, "", "open"}) + run.train());
    CHECK(contains(text, "Input/output error"));
  }
  SECTION("one of several processes cannot write there") {
    if (no_mpirun()) return;
    const Fault fault{"EIO", 1, ".probe-1", "open"};
    CHECK(contains(refused(run.train_mpi(with_fault(run / "run", fault))), ".probe-1.tmp: cannot be created"));
  }
  SECTION("the disk is read-only") {
    fs::create_directories(run.store());
    const std::string store = run.store().string();
    const Result result = run_command("unshare -Urm sh -c 'mount --bind " + store + " " + store +
                                      " && mount -o remount,bind,ro " + store + " || exit 77; " + run.train() + "'");
    INFO(result.text);
    if (result.code == 77 || contains(result.text, "unshare: ")) {
      WARN("no disk can be mounted here; this shows nothing");
      return;
    }
    CHECK(result.code == 1);
    CHECK(contains(result.text, "cannot be created: Read-only file system"));
    CHECK(run.steps() == 0);
  }
  check_no_leftovers(run.path / "run");
}

TEST_CASE("a run that saves nothing needs no place for checkpoints") {
  const RepeatedRun run("saves_nothing", " --set run.save_weights=false");
  fs::create_directories(run / "run");
  std::ofstream(run.path / "run/checkpoints") << "mine";
  const Result result = run_command(run.train());
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(run.state() == run.expected);
}

TEST_CASE("a run whose folder is renamed goes on in it, says so and makes no second one") {
  const RepeatedRun run("renamed", " --set run.checkpoint_interval=3" + trace);
  const Result result = changed_at_line(run, 14, [&] { fs::rename(run / "run", run / "elsewhere"); });
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(contains(result.text, "/run is now " + (run / "elsewhere")));
  CHECK(contains(result.text, "; files in " + (run / "elsewhere")));
  CHECK_FALSE(fs::exists(run / "run"));
  check_whole(run, "elsewhere");
  CHECK(fs::exists(run / "elsewhere/trace.json"));
}

TEST_CASE("a run whose folder is renamed and replaced writes nothing into the new one") {
  const RepeatedRun run("replaced");
  const Result result = changed_at_line(run, 14, [&] {
    fs::rename(run / "run", run / "elsewhere");
    fs::create_directories(run / "run");
  });
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(fs::is_empty(run / "run"));
  check_whole(run, "elsewhere");
}

TEST_CASE("a folder renamed in the middle of a save costs that checkpoint at most") {
  const RepeatedRun run("renamed_in_save");
  const Fault fault{"stop", 1, ".step_12.tmp/shard-00002", "open"};
  Process process(with_fault(run / "run", fault) + run.train(), run.log());
  int status = 0;
  REQUIRE(waitpid(process.pid(), &status, WUNTRACED) == process.pid());
  REQUIRE(WIFSTOPPED(status));
  fs::rename(run / "run", run / "elsewhere");
  process.send(SIGCONT);
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 0);
  CHECK(contains(process.text(), "checkpoint of step 12 was not saved"));
  CHECK_FALSE(fs::exists(run / "run"));
  check_whole(run, "elsewhere");
}

TEST_CASE("a run whose folder is removed ends with an error that names it, and makes none again") {
  const RepeatedRun run("removed");
  const Result result = changed_at_line(run, 14, [&] { fs::remove_all(run / "run"); });
  INFO(result.text);
  CHECK(result.code == 1);
  CHECK(contains(result.text, (run / "run") + ": the folder was removed"));
  CHECK_FALSE(fs::exists(run / "run"));
}

TEST_CASE("records of a file that was removed are told as lost") {
  const RepeatedRun run("records_removed");
  const Result result = changed_at_line(run, 14, [&] { fs::remove(run / "run/metrics.jsonl"); });
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(contains(result.text, "metrics.jsonl: was removed, so its records are lost; training goes on"));
  CHECK(run.state() == run.expected);
}

TEST_CASE("zrt launch does not start a renamed run anew under its old name") {
  const RepeatedRun run("renamed_launch");
  const Fault fault{"stop", 14, "run/metrics.jsonl", "write"};
  Process process(with_fault(run / "run", fault) + run.launch(), run.log());
  run.await_step(process, 13);
  const auto stopped = [&] {
    const auto ranks = process.ranks();
    const std::string stat = ranks.empty() ? "" : read_file("/proc/" + std::to_string(ranks[0]) + "/stat");
    return contains(stat, ") T ");
  };
  for (int i = 0; i < 6000 && !stopped(); ++i) sleep_for(0.005);
  REQUIRE(stopped());
  fs::rename(run / "run", run / "elsewhere");
  kill(process.ranks().at(0), SIGKILL);
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 137);
  CHECK(contains(process.text(), "a restart would not find it"));
  CHECK(contains(process.text(), "is now " + (run / "elsewhere")));
  CHECK_FALSE(fs::exists(run / "run"));
  CHECK(contains(read_file(run.path / "elsewhere/events.jsonl"), "a restart would not find it"));
}

TEST_CASE("a run writes through no link, pipe or device in its folder") {
  const RepeatedRun run("links");
  const std::string precious(64, 'p');
  for (const char* name : {"config.resolved.json", "metrics.jsonl", "evaluations.jsonl", "samples.jsonl", "memory.json",
                           "expert_loads.jsonl", "summary.json", "trace.json", "heartbeat", "checkpoints"}) {
    INFO(name);
    run.reset();
    fs::create_directories(run / "run");
    run.write("precious", precious);
    fs::create_directories(run / "folder");
    const bool folder = std::string(name) == "checkpoints";
    fs::create_symlink(folder ? "../folder" : "../precious", run.path / "run" / name);
    const Result result = run_command(run.train());
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(contains(result.text, (run / "run/") + name + " is a symbolic link"));
    CHECK(read_file(run.path / "precious") == precious);
    CHECK(fs::is_empty(run / "folder"));
  }
  run.reset();
  fs::create_directories(run / "run");
  fs::create_symlink("../precious", run.path / "run/events.jsonl");
  const Result launched = run_command(run.launch());
  INFO(launched.text);
  CHECK(launched.code == 1);
  CHECK(contains(launched.text, "events.jsonl is a symbolic link"));
  CHECK(read_file(run.path / "precious") == precious);
  run.reset();
  fs::create_directories(run / "run");
  REQUIRE(mkfifo((run / "run/metrics.jsonl").c_str(), 0600) == 0);
  const Result piped = run_command(run.train());
  INFO(piped.text);
  CHECK(piped.code == 1);
  CHECK(contains(piped.text, "metrics.jsonl is a pipe or device"));
}

TEST_CASE("links that are planted while a run trains are not followed") {
  const RepeatedRun run("planted");
  run.write("precious", "precious");
  const Result result = changed_at_line(run, 14, [&] {
    for (const char* name : {"summary.json", "memory.json", "heartbeat"}) {
      fs::remove(run.path / "run" / name);
      fs::create_symlink("../precious", run.path / "run" / name);
    }
    fs::create_directories(run / "folder");
    fs::create_symlink("../../folder", run.store() / ".step_18.tmp");
  });
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(read_file(run.path / "precious") == "precious");
  CHECK(fs::is_empty(run / "folder"));
  CHECK(run.state() == run.expected);
}

TEST_CASE("a killed run leaves no file of its NVMe tier") {
  const TemporaryFolder disk;
  const RepeatedRun run("nvme_left", " --set memory.placement=nvme --set memory.nvme_path=" + disk.path.string());
  CHECK(fs::is_empty(disk.path));
  Process process(run.train(), run.log());
  run.await_step(process, 2);
  size_t open = 0;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process.pid()) + "/fd")) {
    std::error_code gone;
    open += contains(fs::read_symlink(entry.path(), gone), disk.path.string() + "/rank-");
  }
  CHECK(open == 2);
  process.send(SIGKILL);
  CHECK(process.wait() == 137);
  CHECK(fs::is_empty(disk.path));
}

TEST_CASE("a killed run of processes leaves no shared memory, nor does one that ends well") {
  if (no_mpirun()) return;
  const RepeatedRun run("shared_memory", " --set run.checkpoint_interval=10", 100);
  {
    Process process(run.train_mpi(), run.log());
    run.await_step(process, 2);
    CHECK(fs::is_empty(run.path / "shm"));
    const auto ranks = process.ranks();
    process.send(SIGKILL);  // mpirun, which would remove what its processes leave
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    CHECK(process.wait() == 137);
    CHECK(fs::is_empty(run.path / "shm"));
  }
  run.reset();
  Process process(run.train_mpi(), run.log());
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 0);
  CHECK_FALSE(contains(process.text(), "A system call failed"));
  CHECK(run.state() == run.expected);
  CHECK(fs::is_empty(run.path / "shm"));
}

}  // namespace zrt::run_folder_test
