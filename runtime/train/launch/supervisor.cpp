#include "runtime/train/launch/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/folder_lock.h"
#include "core/held_folder.h"
#include "runtime/train/launch/child.h"
#include "runtime/train/launch/event_log.h"
#include "runtime/train/launch/failure.h"
#include "runtime/train/launch/hang_watch.h"
#include "runtime/train/launch/progress.h"
#include "runtime/train/launch/stop_signals.h"

namespace zrt::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds poll_interval{0.2};

// Blocks the signals a supervisor answers, so that they are waited for and interrupt nothing.
class SignalWait {
 public:
  SignalWait() {
    sigemptyset(&set_);
    for (const int signal : {SIGUSR1, SIGCHLD}) sigaddset(&set_, signal);
    add_stop_signals(set_);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  // A process that was asked to stop is about to end as it should; another signal must not end it sooner.
  ~SignalWait() {
    if (!asked_to_stop_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  const sigset_t& set() const { return set_; }
  // The next signal, or 0 after `limit`.
  int wait(Seconds limit) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(limit);
    const timespec time{static_cast<time_t>(whole.count()),
                        static_cast<long>(std::chrono::duration<double, std::nano>(limit - whole).count())};
    const int signal = std::max(0, sigtimedwait(&set_, nullptr, &time));
    asked_to_stop_ = asked_to_stop_ || stops(signal);
    return signal;
  }

 private:
  sigset_t set_, before_;
  bool asked_to_stop_ = false;
};

class Supervisor {
 public:
  explicit Supervisor(const LaunchOptions& options)
      : options_(options), log_(options.out / "events.jsonl"), progress_(options.out), watch_(options) {}

  LaunchResult run() {
    const auto start = Clock::now();
    result_.exit_code = run_children();
    event("end", result_.reason);
    result_.step = progress_.step();
    // A run that is done has weights or was asked for none.
    result_.lost_steps = progress_.lost_steps() + (result_.exit_code == exit_done ? 0 : progress_.unsaved_steps());
    result_.productive_seconds = progress_.productive_seconds();
    result_.wall_seconds = Seconds(Clock::now() - start).count();
    return result_;
  }

 private:
  int run_children() {
    for (int fruitless = 0;;) {
      const int64_t step = progress_.highest_step(), checkpoint = progress_.checkpoint();
      remove_failure(options_.out);
      const ProcessEnd end = run_child();
      const int code = end.exit_code();
      if (const std::string why = final_reason(end); !why.empty()) {
        result_.reason = why;
        return code;
      }
      if (const std::string why = repeated_failure(); !why.empty()) {
        result_.reason = why;
        event("give_up", why);
        return code;
      }
      const bool moved = progress_.highest_step() > step || progress_.checkpoint() > checkpoint;
      fruitless = moved ? 0 : fruitless + (result_.restarts > 0);
      if (fruitless >= options_.max_restarts) {
        result_.reason = fmt::format(
            "gave up after {} restarts in a row that brought no newer step or checkpoint (last: {}). Nothing was "
            "deleted; mend the cause and start again to go on from the newest checkpoint",
            fruitless, end.text());
        event("give_up", result_.reason);
        return code;
      }
      const Seconds delay =
          std::min(options_.longest_delay, options_.first_delay * static_cast<double>(1 << std::min(fruitless, 20)));
      event("restart", fmt::format("after {}, in {:.1f} s", end.text(), delay.count()));
      if (const int signal = pause(delay); signal != 0) return stopped(signal);
      if (const int refused = wait_for_folder(); refused != 0) return refused;
      ++result_.restarts;
    }
  }

  // Says why nothing is started after this end; "" when something is.
  std::string final_reason(const ProcessEnd& end) {
    if (end.signal == 0 && end.code == exit_done) return "done";
    if (stopping_) return fmt::format("stopped as asked, with {}", end.text());
    if (end.signal == 0 && end.code == exit_preempted) return "stopped with a checkpoint saved";
    if (end.signal == 0 && end.code == exit_refused) {
      return "the configuration or command line was refused; another start would repeat that";
    }
    if (end.signal == 0 && (end.code == exit_not_runnable || end.code == exit_not_found)) {
      return fmt::format("{} cannot be run", options_.command[0]);
    }
    if (const std::string gone = progress_.gone(); !gone.empty()) {
      return fmt::format("ended with {}, and a restart would not find it: {}", end.text(), gone);
    }
    // A child that ends by itself before any rank has begun would do so again; its own message says why. One that hung
    // was killed from here, and another's fault may have held it up.
    if (!result_.began && !hung_) {
      return fmt::format("ended with {} before any rank gave a sign of life; another start would repeat that",
                         end.text());
    }
    return "";
  }

  // Says that the same failure came twice, else "". It depends on the run's numbers alone, so it would come again.
  std::string repeated_failure() {
    const std::optional<RunFailure> failure = read_failure(options_.out);
    if (!failure) return "";
    const bool again = failure_ && failure_->same(*failure);
    failure_ = failure;
    if (!again) return "";
    return fmt::format(
        "failed twice in the same way at step {}; another start would repeat that. Nothing was deleted; mend the cause "
        "and start again to go on from the newest checkpoint",
        failure->step);
  }

  ProcessEnd run_child() {
    hung_ = false;
    Child child(options_.command, options_.death_signal, options_.cleans_up, signals_.set());
    event("start", fmt::format("{}", fmt::join(options_.command, " ")));
    for (watch_.start(Clock::now());;) {
      const int signal = signals_.wait(poll_interval);
      if (signal != 0 && signal != SIGCHLD) pass_on(child, signal);
      const auto now = Clock::now();
      const std::optional<ProcessEnd> end = child.poll();
      const bool sign = progress_.poll();
      watch_.look(now, sign, Seconds(progress_.longest_step_seconds()));
      result_.began = result_.began || sign;
      if (end) {
        event("exit", end->text());
        return *end;
      }
      if (watch_.hung()) {
        event("hang", fmt::format("no sign of life for {:.1f} s; killed", watch_.limit().count()));
        child.end_tree();
        hung_ = true;
        return {0, SIGKILL};
      }
    }
  }

  void pass_on(Child& child, int signal) {
    if (signal == SIGUSR1) {
      event("signal", "SIGUSR1 passed on: save and go on");
      return child.send(signal, options_.rank_program);
    }
    const StopSignal meaning = stops_.note(signal, Clock::now());
    if (meaning == StopSignal::echo) return;
    stopping_ = true;
    const bool kills = meaning == StopSignal::second;
    event("signal", fmt::format("signal {}: {}", signal, kills ? "the second, killing" : "stopping"));
    if (kills) return child.end_tree();
    // Processes of a run of several take SIGTERM for their launcher's, and print what they did last.
    child.send(options_.rank_program.empty() ? SIGTERM : SIGINT, options_.rank_program);
  }

  // Waits; the signal that asked to stop meanwhile, or 0.
  int pause(Seconds delay) {
    const auto end = Clock::now() + delay;
    for (Seconds left = delay; left > Seconds(0); left = end - Clock::now()) {
      const int signal = signals_.wait(left);
      if (stops(signal)) return signal;
    }
    return 0;
  }

  // Ranks of the last child may still be saving and ending, for as long as a step and a save may take. The exit code
  // where nothing is to be started, else 0.
  int wait_for_folder() {
    const auto end = Clock::now() + watch_.limit();
    for (bool said = false;; said = true) {
      try {
        const core::FolderLock free(options_.out, core::Entry::launched);
        return 0;
      } catch (const core::ConfigError& error) {
        if (!said) event("wait", error.what());
        if (Clock::now() > end) {
          result_.reason = error.what();
          return exit_refused;
        }
      } catch (const core::DataError&) {  // for the next child to say, or to find mended
        return 0;
      }
      if (const int signal = pause(poll_interval); signal != 0) return stopped(signal);
    }
  }

  int stopped(int signal) {
    result_.reason = fmt::format("stopped by signal {} between two starts", signal);
    return 128 + signal;
  }

  void event(const std::string& name, const std::string& reason) {
    log_.add({name, result_.restarts, progress_.step(), reason});
  }

  const LaunchOptions& options_;
  SignalWait signals_;
  EventLog log_;
  RunProgress progress_;
  HangWatch watch_;
  StopSignals stops_;
  LaunchResult result_;
  std::optional<RunFailure> failure_;  // the last one that a child left
  bool stopping_ = false, hung_ = false;
};

}  // namespace

LaunchResult supervise(const LaunchOptions& options) {
  core::make_folder(options.out);
  // Steps of a run that is not the supervisor's must not count as its own. The child locks the folder, too.
  const core::LaunchLock lock(options.out);
  core::refuse_special(options.out / "events.jsonl");
  return Supervisor(options).run();
}

}  // namespace zrt::runtime
