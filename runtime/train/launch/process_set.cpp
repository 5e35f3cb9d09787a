#include "runtime/train/launch/process_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "core/error.h"
#include "runtime/train/launch/child.h"
#include "runtime/train/launch/supervisor.h"

namespace zrt::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// A rank that ends by itself has said why. Where one was killed, the others notice and say what they did with it.
constexpr auto after_exit = std::chrono::seconds(1), after_signal = std::chrono::seconds(4);
// A rank whose peer was killed may have ended before the system lets this process know of the peer.
constexpr auto killed_within = std::chrono::milliseconds(500);
// An agent whose input has ended kills what it started, waits for that and ends.
constexpr auto after_input = std::chrono::seconds(10);

[[noreturn]] void become(const ProcessSet::Process& process, int input, const sigset_t& signals, pid_t parent) {
  // An agent's host takes its end for the signal.
  prctl(PR_SET_PDEATHSIG, process.told_by_input ? SIGKILL : SIGTERM);
  if (getppid() != parent) _exit(1);  // it died before the line above
  for (const auto& [name, value] : process.environment) setenv(name.c_str(), value.c_str(), 1);
  if (input >= 0) dup2(input, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : process.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::cerr << "zrt: error: " << process.command[0] << " cannot be run: " << std::strerror(errno) << std::endl;
  _exit(exit_not_found);
}

}  // namespace

ProcessSet::ProcessSet() {
  sigemptyset(&set_);
  for (const int signal : {SIGUSR1, SIGCHLD}) sigaddset(&set_, signal);
  add_stop_signals(set_);
  sigprocmask(SIG_BLOCK, &set_, &before_);
}

ProcessSet::~ProcessSet() {
  for (int i = 0; i < 2; ++i) tell(SIGKILL);  // agents, too
}

void ProcessSet::start(const Process& process) {
  int ends[2] = {-1, -1};
  if (process.told_by_input && pipe2(ends, O_CLOEXEC) != 0) {
    throw core::Error(fmt::format("no pipe can be made for {}: {}", process.name, std::strerror(errno)));
  }
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(process, ends[0], before_, parent);
  if (ends[0] >= 0) close(ends[0]);
  if (pid < 0) throw core::Error(fmt::format("no process can be made for {}: {}", process.name, std::strerror(errno)));
  members_.push_back({process.name, pid, ends[1]});
}

bool ProcessSet::any_left() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) { return member.pid > 0; });
}

// The run has ended when its ranks on other hosts have, too, so agents are given time to end by themselves. One that is
// killed leaves to its host what its end means there.
void ProcessSet::tell(int signal) {
  const std::string line = signal == SIGINT ? "stop\n" : signal == SIGUSR1 ? "save\n" : "";
  for (Member& member : members_) {
    if (member.pid == 0) continue;
    if (member.input >= 0 && line.empty()) {
      close(std::exchange(member.input, -1));
      ends_ = Clock::now() + after_input;
      closing_ = true;
    } else if (member.input < 0) {
      kill(member.pid, signal);
    } else if (write(member.input, line.data(), line.size()) < 0) {
      kill(member.pid, signal);
    }
  }
}

void ProcessSet::ask_to_stop(int signal) {
  switch (stops_.note(signal, Clock::now())) {
    case StopSignal::first:
      std::cerr << "zrt ranks: asked to stop: the ranks save after this step and end; another signal, two seconds from "
                   "now or later, ends them at once\n";
      return tell(SIGINT);
    case StopSignal::echo:
      return;
    case StopSignal::second:
      std::cerr << "zrt ranks: a second signal: the ranks end at once; what was not saved is lost\n";
      killed_ = true;
      return tell(SIGKILL);
  }
}

void ProcessSet::follow() {
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) > 0;) {
    char text[256];
    const ssize_t count = read(STDIN_FILENO, text, sizeof text);
    if (count <= 0) {
      killed_ = true;
      return tell(SIGKILL);
    }
    input_.append(text, static_cast<size_t>(count));
  }
  for (size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
    const std::string line = input_.substr(0, end);
    if (line == "stop") tell(SIGINT);
    if (line == "save") tell(SIGUSR1);
  }
}

// A supervisor's death leaves nobody who would end ranks that hang. Agents stay: the ranks of other hosts learn the
// wish to stop from this process alone.
bool ProcessSet::leave_orphans() {
  const bool agents = std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.input >= 0; });
  if (agents || !orphan_.is()) return false;
  std::cerr << "zrt ranks: the process that watched this run has died; the ranks save after this step and end\n";
  members_.clear();
  return true;
}

int ProcessSet::run(bool follow_input) {
  while (any_left()) {
    const timespec turn{0, 100'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &turn);
    if (signal == SIGUSR1) tell(SIGUSR1);
    if (stops(signal) && !follow_input && leave_orphans()) return exit_preempted;
    if (stops(signal)) ask_to_stop(signal);
    if (follow_input) follow();
    reap();
    if (Clock::now() > ends_) tell(SIGKILL);
  }
  return failure_ ? failure_->end.exit_code() : 0;
}

void ProcessSet::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.pid == pid; });
    if (found == members_.end()) continue;
    found->pid = 0;
    if (found->input >= 0) close(found->input);
    const ProcessEnd end = WIFSIGNALED(status) ? ProcessEnd{0, WTERMSIG(status)} : ProcessEnd{WEXITSTATUS(status), 0};
    // Whoever ends by itself after another was killed has said what there is to say.
    if (ends_ != Clock::time_point::max() && !closing_) ends_ = std::min(ends_, Clock::now() + after_exit);
    // Other codes are a rank's own, such as that of a refusal; 1 is also that of a rank that lost another.
    const bool cause = failure_ && !failure_->named && failure_->end.exit_code() == 1 && end.signal != 0;
    if (end.exit_code() == 0 || (failure_ && !cause)) continue;
    const auto now = Clock::now();
    failure_ = {found->name, pid, end, now + (end.signal == 0 ? killed_within : Clock::duration{}), false};
    failure_->named = end.exit_code() == exit_preempted || killed_;
    if (!failure_->named && !closing_) ends_ = now + (end.signal == 0 ? after_exit : after_signal);
  }
  name_failure();
}

void ProcessSet::name_failure() {
  if (!failure_ || failure_->named || (any_left() && Clock::now() < failure_->named_at)) return;
  failure_->named = true;
  std::cerr << fmt::format("zrt ranks: {} (process {}) ended with {}\n", failure_->name, failure_->pid,
                           failure_->end.text());
}

}  // namespace zrt::runtime
