#include "runtime/train/launch/child.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/error.h"

namespace zrt::runtime {
namespace {

// Parents of all processes, from /proc/PID/stat: "PID (NAME) STATE PARENT …", where NAME may hold anything.
std::map<pid_t, pid_t> read_parents() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 4 >= text.size()) continue;
    parents[pid] = std::atoi(text.c_str() + name_end + 4);
  }
  return parents;
}

std::vector<pid_t> descendants_of(pid_t ancestor) {
  const std::map<pid_t, pid_t> parents = read_parents();
  std::vector<pid_t> found;
  for (const auto& [pid, parent] : parents) {
    pid_t above = parent;
    for (size_t hops = 0; above != ancestor && hops < parents.size(); ++hops) {
      const auto next = parents.find(above);
      if (next == parents.end()) break;
      above = next->second;
    }
    if (above == ancestor) found.push_back(pid);
  }
  return found;
}

// Between fork and exec only async-signal-safe calls are allowed.
[[noreturn]] void become(char* const* arguments, int death_signal, pid_t parent, const sigset_t& unblocked) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(1);  // it died before the line above
  sigprocmask(SIG_UNBLOCK, &unblocked, nullptr);
  execvp(arguments[0], arguments);
  const char* reason = std::strerror(errno);
  const char* parts[] = {"zrt: error: ", arguments[0], " cannot be run: ", reason, "\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  _exit(127);
}

}  // namespace

std::string ProcessEnd::text() const {
  return signal == 0 ? fmt::format("exit code {}", code) : fmt::format("signal {} ({})", signal, strsignal(signal));
}

Child::Child(const std::vector<std::string>& command, int death_signal, bool cleans_up, const sigset_t& unblocked)
    : cleans_up_(cleans_up) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    throw core::Error(fmt::format("no process can be made for {}: {}", command[0], std::strerror(errno)));
  }
  if (pid_ == 0) become(arguments.data(), death_signal, parent, unblocked);
}

std::optional<ProcessEnd> Child::poll() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {  // orphans are reaped too
    if (pid != pid_) continue;
    end_ = WIFSIGNALED(status) ? ProcessEnd{0, WTERMSIG(status)} : ProcessEnd{WEXITSTATUS(status), 0};
  }
  return end_;
}

void Child::send(int signal, const std::filesystem::path& program) const {
  if (end_) return;
  bool sent = false;
  for (const pid_t pid : program.empty() ? std::vector<pid_t>() : descendants_of(pid_)) {
    std::error_code error;
    if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error) != program) continue;
    kill(pid, signal);
    sent = true;
  }
  if (!sent) kill(pid_, signal);
}

void Child::end_tree() {
  if (cleans_up_ && !poll()) {
    kill(pid_, SIGTERM);
    for (int round = 0; round < 500 && !poll(); ++round) usleep(10000);
  }
  // A process may fork while it is being killed, so the tree is read until it is empty. One that sleeps in the kernel,
  // on a dead disk for example, cannot be killed by anybody and is left after 30 s.
  for (int round = 0; round < 3000; ++round) {
    poll();
    const std::vector<pid_t> left = descendants_of(getpid());
    if (left.empty()) return;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    usleep(10000);
  }
}

}  // namespace zrt::runtime
