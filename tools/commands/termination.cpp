#include "tools/commands/termination.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

namespace zrt::tools {
namespace {

sigset_t only_sigterm() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

TerminationWatch::TerminationWatch(bool enabled) {
  if (!enabled) return;
  const sigset_t set = only_sigterm();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

TerminationWatch::~TerminationWatch() {
  if (!thread_.joinable()) return;
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void TerminationWatch::set_transport(const comm::Transport& transport) {
  const std::lock_guard lock(mutex_);
  transport_ = &transport;
}

void TerminationWatch::wait() {
  const sigset_t set = only_sigterm();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  if (done_) return;
  const std::lock_guard lock(mutex_);
  const std::string text =
      fmt::format("zrt: SIGTERM: this process of several ends at once, with nothing saved. Last calls:\n{}",
                  transport_ ? transport_->last_calls() : "    none yet\n");
  // Not through a stream, whose lock another thread may hold.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(128 + SIGTERM);
  _exit(128 + SIGTERM);
}

}  // namespace zrt::tools
