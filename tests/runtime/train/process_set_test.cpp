// Processes that are one run, played by shell scripts.
#include "runtime/train/launch/process_set.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace zrt::process_set_test {

using runtime::ProcessSet;

namespace {

// The code with which their launcher would end. A process has one set and no other children.
int code_of(const std::vector<std::string>& scripts) {
  std::cout.flush();  // or the child would, too
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ProcessSet set;
    for (const std::string& script : scripts) {
      set.start({"rank " + std::to_string(&script - scripts.data()), {"sh", "-c", script}});
    }
    _exit(set.run(false));
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("processes that all succeed are a success") {
  CHECK(code_of({"exit 0", "exit 0"}) == 0);
}

TEST_CASE("the code of the first process that fails stands for all, and not that of those that are killed for it") {
  CHECK(code_of({"exec sleep 1000", "exit 2", "trap '' TERM INT; exec sleep 1000"}) == 2);
}

// The first process lets its launcher stand still until both have ended: so they may be found on a busy machine.
TEST_CASE("a process that was killed stands for all, where another one that noticed it is found first") {
  const std::string file = std::filesystem::temp_directory_path() / ("zrt_process_set_" + std::to_string(getpid()));
  CHECK(code_of({"while [ ! -s " + file + " ]; do sleep 0.01; done; kill -STOP $PPID; (sleep 0.2; kill -KILL $(cat " +
                     file + "); sleep 0.2; kill -CONT $PPID) & exit 1",
                 "echo $$ > " + file + "; exec sleep 1000"}) == 128 + SIGKILL);
  std::filesystem::remove(file);
}

}  // namespace zrt::process_set_test
