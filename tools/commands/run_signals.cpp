#include "tools/commands/run_signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "comm/launch.h"
#include "runtime/program/control.h"
#include "runtime/train/launch/stop_signals.h"

namespace zrt::tools {
namespace {

// The signal handler's state.
std::atomic<uint32_t> wishes{0};
runtime::StopSignals stops;
std::atomic<bool> one_process{true};
std::atomic<runtime::Orphan*> orphan{nullptr};

constexpr std::string_view stopping =
    "zrt: asked to stop: the run saves after this step and ends; another signal, two seconds from now or later, ends "
    "it "
    "at once\n";
constexpr std::string_view orphaned =
    "zrt: the process that watched this run has died: the run saves after this step and ends\n";
constexpr std::string_view at_once = "zrt: a second signal: the run ends at once; what was not saved is lost\n";

// Writes without a stream, whose lock another thread may hold.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(STDERR_FILENO, text.data(), text.size());
    if (done <= 0) return;
    text.remove_prefix(static_cast<size_t>(done));
  }
}

void on_stop(int signal) {
  const int error = errno;
  runtime::Orphan* const self = orphan;
  if (self) self->bound();
  switch (stops.note(signal, std::chrono::steady_clock::now())) {
    case runtime::StopSignal::first:
      wishes |= runtime::stop_requested;
      if (one_process) say(self && self->is() ? orphaned : stopping);
      break;
    case runtime::StopSignal::echo:
      break;
    case runtime::StopSignal::second:
      say(at_once);
      ::signal(signal, SIG_DFL);
      raise(signal);  // which comes when this handler has returned
  }
  errno = error;
}

void on_save(int) {
  wishes |= runtime::save_requested;
}

sigset_t only_sigterm() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

RunSignals::RunSignals(bool several) {
  one_process = !several;
  orphan = &orphan_;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_save;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = on_stop;
  for (const int signal : runtime::stop_signals) {
    if (!runtime::stays_ignored(signal)) sigaction(signal, &action, nullptr);
  }
  if (!several) return;
  const sigset_t set = only_sigterm();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

RunSignals::~RunSignals() {
  orphan = nullptr;
  if (!thread_.joinable()) return;
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void RunSignals::set_transport(const comm::Transport& transport) {
  const std::lock_guard lock(mutex_);
  transport_ = &transport;
}

uint32_t RunSignals::requests() {
  const auto now = std::chrono::steady_clock::now();
  if (last_requests_.time_since_epoch().count() != 0) {
    orphan_.set_limit(std::max(orphan_.limit(), std::chrono::ceil<std::chrono::seconds>(5 * (now - last_requests_))));
  }
  last_requests_ = now;
  return wishes.fetch_and(~uint32_t{runtime::save_requested});
}

bool RunSignals::stopping() const {
  return (wishes & runtime::stop_requested) != 0;
}

void RunSignals::wait() {
  const sigset_t set = only_sigterm();
  for (int signal = 0;;) {
    if (sigwait(&set, &signal) != 0) continue;
    if (done_) return;
    orphan_.bound();
    switch (stops.note(signal, std::chrono::steady_clock::now())) {
      case runtime::StopSignal::first:
        tell_last_calls();
        wishes |= runtime::stop_requested;
        break;
      case runtime::StopSignal::echo:
        break;
      case runtime::StopSignal::second:
        say(at_once);
        _exit(128 + SIGTERM);
    }
  }
}

void RunSignals::tell_last_calls() {
  const std::lock_guard lock(mutex_);
  if (!transport_) {
    say("zrt: SIGTERM before the ranks have met: this process ends\n");
    _exit(128 + SIGTERM);
  }
  if (orphan_.is()) return say(orphaned);
  say(
      fmt::format("zrt: SIGTERM: this process of several saves after this step and ends, if its launcher leaves it the "
                  "time. Last calls:\n{}",
                  transport_->last_calls()));
}

std::string short_notice(int64_t checkpoint_interval) {
  const auto launch = comm::detect_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (!launch || launch->world == 1 || launch->launcher != "Open MPI" || checkpoint_interval > 0) return "";
  const char* set = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  return fmt::format(
      "run.checkpoint_interval is 0, and mpirun kills its ranks {} s after it has passed on Ctrl-C or SIGTERM: a run "
      "that "
      "cannot end a step and save in that time loses everything. Set run.checkpoint_interval, give it more time with "
      "mpirun --mca "
      "odls_base_sigkill_timeout 60, or start it with zrt launch --mpi, which asks the ranks to save first",
      set ? set : "1");
}

}  // namespace zrt::tools
