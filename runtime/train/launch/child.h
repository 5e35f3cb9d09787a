// A child process that a supervisor starts, watches and ends with everything it started.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zrt::runtime {

struct ProcessEnd {
  int code = 0;                                                        // exit code, when signal is 0
  int signal = 0;                                                      // that ended it
  int exit_code() const { return signal == 0 ? code : 128 + signal; }  // as shells count
  std::string text() const;                                            // "exit code 1", "signal 9 (Killed)"
};

// Makes the calling process the parent of orphans below it, so that end_tree() finds ranks whose launcher died. The
// process must have no other children: end_tree() ends all of them.
class Child {
 public:
  // Starts `command` (found through PATH) in a process group of its own, with the signals of `unblocked` unblocked. The
  // kernel sends it `death_signal` when the calling thread dies. `cleans_up`: it is a launcher, see end_tree(). Throws
  // core::Error when no process can be made; a program that cannot be run ends with code 127.
  Child(const std::vector<std::string>& command, int death_signal, bool cleans_up, const sigset_t& unblocked);
  ~Child() { end_tree(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::optional<ProcessEnd> poll();  // how it ended, or nothing while it runs
  // Signals the child's descendants that run the file `program`; the child itself if that is "" or none does.
  void send(int signal, const std::filesystem::path& program) const;
  // Kills the child and all its descendants, stopped ones and those in other process groups too, and waits for them. A
  // launcher that cleans up behind its ranks first gets SIGTERM and some seconds.
  void end_tree();

 private:
  pid_t pid_;
  bool cleans_up_;
  std::optional<ProcessEnd> end_;
};

}  // namespace zrt::runtime
