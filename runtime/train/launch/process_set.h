// Processes that are one run: the first that fails is named and ends the others, and signals to this process reach all.
#pragma once
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/launch/child.h"
#include "runtime/train/launch/orphan.h"
#include "runtime/train/launch/stop_signals.h"

namespace zrt::runtime {

class ProcessSet {
 public:
  // Blocks the signals that run() answers. In a process without other children and threads.
  ProcessSet();
  ~ProcessSet();  // kills what is left
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  struct Process {
    std::string name;                  // "rank 3", "host b": for messages
    std::vector<std::string> command;  // found through PATH
    std::map<std::string, std::string> environment = {};
    // Another host's agent, to which signals do not reach: it is told by lines of its standard input, "stop" and
    // "save", and ends what it started when that ends.
    bool told_by_input = false;
  };
  // Throws core::Error. The process is asked to stop when the calling thread dies; an agent is killed.
  void start(const Process& process);

  // Waits for all. With `follow_input` this process is such an agent itself. Returns as run_local_ranks does; when the
  // supervisor that started this process has died it waits no longer, and the end of this process asks the others to
  // stop, which then bound their own lives.
  int run(bool follow_input);

 private:
  struct Member {
    std::string name;
    pid_t pid;  // 0: ended
    int input;  // of one that is told by it; -1
  };
  bool any_left() const;
  bool leave_orphans();
  void tell(int signal);
  void ask_to_stop(int signal);
  void follow();
  void reap();
  void name_failure();

  sigset_t set_, before_;
  Orphan orphan_;
  std::vector<Member> members_;
  StopSignals stops_;
  // The end of one process stands for all; it is named at that time.
  struct Failure {
    std::string name;
    pid_t pid = 0;
    ProcessEnd end;
    std::chrono::steady_clock::time_point named_at;
    bool named = false;
  };
  std::optional<Failure> failure_;
  // run() kills then whatever is left; it closes the input of agents first.
  std::chrono::steady_clock::time_point ends_ = std::chrono::steady_clock::time_point::max();
  bool closing_ = false;  // agents' inputs have ended
  bool killed_ = false;   // as the user or the launcher of all hosts wished
  std::string input_;     // read so far of a line
};

}  // namespace zrt::runtime
