// Keeps a training run going: starts it, restarts it when it dies or hangs, and stops when restarts bring nothing.
#pragma once
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zrt::runtime {

using Seconds = std::chrono::duration<double>;

struct LaunchOptions {
  std::vector<std::string> command;  // of the child; it must go on from its newest checkpoint by itself
  std::filesystem::path out;         // folder of the run: metrics.jsonl, checkpoints/, and events.jsonl is written here
  int max_restarts = 3;              // in a row that bring no newer step or checkpoint
  // Without a sign of life for so long a child is killed. 0: the longest of shortest_hang_timeout and 5 times the
  // longest pause so far between two signs of life.
  Seconds hang_timeout{0}, shortest_hang_timeout{240};
  Seconds start_timeout{900};                 // until a child's first sign of life, at least the above
  Seconds first_delay{1}, longest_delay{30};  // before a restart; doubles with each that brings nothing
  // A launcher above the ranks' processes would rather kill them: signals go to the processes that run this file, if
  // any, instead of to the child, and SIGINT stands for SIGTERM. "": to the child.
  std::filesystem::path rank_program;
  // The child gets it when the supervisor dies: one that lets it save. A run that does not end by it bounds its own
  // life, see orphan.h.
  int death_signal = SIGTERM;
  bool cleans_up = false;  // the child is a launcher that gets some seconds before it is killed
};

struct LaunchResult {
  // The child's exit code, or 128 + the signal that ended it. A child that was killed because it hung counts as 137.
  int exit_code = 0;
  std::string reason;
  bool began = false;  // a rank gave a sign of life, in any start
  int restarts = 0;
  int64_t step = 0, lost_steps = 0;                 // newest step; steps that ran twice, or behind the last checkpoint
  double productive_seconds = 0, wall_seconds = 0;  // of steps, each once; of everything
  double goodput() const { return wall_seconds > 0 ? productive_seconds / wall_seconds : 0; }
};

// Exit codes of a child that end supervision: done, stopped with a checkpoint saved, and those another start would only
// repeat: a refused configuration or command line, and a program that cannot be run.
inline constexpr int exit_done = 0, exit_refused = 2, exit_preempted = 3, exit_not_runnable = 126, exit_not_found = 127;

// Runs the command until it is done. A child that ends before any rank has given a sign of life is not started again,
// nor is one with the codes above, nor one that left the same RunFailure as one before it. The signals
// of stop_signals.h ask the child to stop, whose end is then waited for; a second one, two seconds later or more, kills
// it. SIGUSR1 is passed on. Call it from a thread that lives as long as the process, in a process without other
// children and with the signals unhandled by others. Throws DataError when `out` cannot be made, and ConfigError when
// another run uses it.
LaunchResult supervise(const LaunchOptions& options);

}  // namespace zrt::runtime
