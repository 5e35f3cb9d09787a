// `zrt train` under a real Slurm of one node, started for the test (tools/local_slurm.sh), a process for each rank.
#include "program.h"

namespace zrt::slurm_test {

using namespace zrt::testing;

namespace {

Result under_slurm(const std::string& command) {
  return run_command("timeout -k 5 600 " ZRT_SOURCE_DIR "/tools/local_slurm.sh -- " + command);
}

std::string train(const Folder& folder, const std::string& out, const std::string& more) {
  return std::string(ZRT_BINARY_DIR) + "/zrt train " + (folder / "good.json") + " --out " + (folder / out) + " " + more;
}

}  // namespace

TEST_CASE("the script of a local Slurm says what it lacks") {
  const std::string script = std::string(ZRT_SOURCE_DIR) + "/tools/local_slurm.sh ";
  CHECK(run_command(script).code == 2);
  CHECK(run_command(script + "--rats 1 -- true").text.find("unknown option --rats") != std::string::npos);
  const Result alone = run_command("PATH=/nonexistent /bin/bash " + script + "-- true");
  CHECK(alone.code == 77);
  CHECK(alone.text.find("was not found; install slurm-wlm and munge") != std::string::npos);
}

TEST_CASE("tasks of srun train to the bits that threads train to, and a killed task ends the others and is named") {
  const Folder folder("slurm");
  build_data(folder);
  folder.write("good.json", folder.config());
  // In a build with the emulated GPU each task has one of its own, which the other reads in place.
  const std::string device = ZRT_EMULATED ? "--device cuda " : "";
  const Result tasks = under_slurm("srun --mpi=pmix -n 2 " + train(folder, "tasks", device));
  if (tasks.code == 77) {
    WARN("not run: " << tasks.text);
    return;
  }
  const Result threads = run_command(train(folder, "threads", device + "--ranks 2"));
  INFO(threads.text << tasks.text);
  REQUIRE(threads.code == 0);
  REQUIRE(tasks.code == 0);
  CHECK(read_json(folder / "tasks/summary.json")["state_xxh3"] ==
        read_json(folder / "threads/summary.json")["state_xxh3"]);

  // Task 1 dies in training, which the metrics' file shows.
  folder.write("task.sh", R"(if [ "$SLURM_PROCID" = 1 ]; then
  (while [ ! -s )" + (folder / "killed/metrics.jsonl") +
                              R"( ]; do sleep 0.05; done; kill -KILL $$) &
fi
exec "$@"
)");
  const Result killed = under_slurm(
      "srun --mpi=pmix -n 2 sh " + (folder / "task.sh") + " " +
      train(folder, "killed", device + "--steps 1000000 --set run.timeout_seconds=5 --set run.log_interval=0"));
  INFO(killed.text);
  CHECK(killed.code != 0);
  CHECK(killed.code != 124);
  // Slurm says who it was, and ends the others, often before they see that a rank is missing.
  CHECK(killed.text.find("task 1: Killed") != std::string::npos);
}

}  // namespace zrt::slurm_test
