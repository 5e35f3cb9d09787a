// A command that runs beside the test, which may signal it or any process below it.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "faults/faults.h"

namespace zrt::testing {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep_for(double seconds) {
  usleep(static_cast<useconds_t>(1e6 * seconds));
}

constexpr double patience = 600;  // seconds: what takes longer on a busy machine, too, does not come

// Waits for a condition; whether it came.
inline bool await(const std::function<bool()>& condition) {
  for (const double deadline = seconds_now() + patience; seconds_now() < deadline; sleep_for(0.005)) {
    if (condition()) return true;
  }
  return false;
}

// Repeats `turn` until it has struck `times` times: a fault at a random moment may come after the last step.
inline void repeat(int times, const std::function<bool(int struck)>& turn) {
  int struck = 0;
  for (int tries = 0; struck < times && tries < 20 * times + 20; ++tries) struck += turn(struck);
  CHECK(struck == times);
}

class Process {
 public:
  // Starts the command through a shell, which it replaces; stdout and stderr go to the file `log`.
  Process(const std::string& command, const std::string& log) : log_(log), start_(seconds_now()) {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, 1);
    dup2(file, 2);
    // The caller of the tests may ignore these signals, in the background for example.
    for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
    const std::string line = "exec " + command;
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  ~Process() {
    for (const pid_t pid : below(pid_)) ::kill(pid, SIGKILL);
    if (!ended_) ::kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  std::string text() const { return read_file(log_); }

  // Its exit code, 128 + the signal that ended it.
  int wait() {
    await([&] { return ended(); });
    INFO("still running after " << seconds_now() - start_ << " s\n" << text());
    REQUIRE(ended_);
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  bool ended() { return ended_ = ended_ || waitpid(pid_, &status_, WNOHANG) == pid_; }

  // The processes that run `zrt train`, at or below this one; under mpirun one per rank, in their order.
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> found;
    std::vector<pid_t> all = below(pid_);
    all.insert(all.begin(), pid_);
    for (const pid_t pid : all) {
      const std::string line = read_file("/proc/" + std::to_string(pid) + "/cmdline");
      const size_t end = std::min(line.find('\0'), line.size());
      const bool trains = line.compare(end, 7, std::string("\0train\0", 7)) == 0;
      if (trains && fs::path(line.substr(0, end)).filename() == "zrt") found.push_back(pid);
    }
    const auto rank = [](pid_t pid) {
      const std::string environment = read_file("/proc/" + std::to_string(pid) + "/environ");
      const size_t at = environment.find(std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=");
      return at == std::string::npos ? -1 : std::atoi(environment.c_str() + at + 22);
    };
    std::sort(found.begin(), found.end(), [&](pid_t a, pid_t b) { return rank(a) < rank(b); });
    return found;
  }

  std::vector<pid_t> children() const {
    std::vector<pid_t> found;
    std::ifstream file("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    for (pid_t child; file >> child;) found.push_back(child);
    return found;
  }

 private:
  static std::vector<pid_t> below(pid_t ancestor) {
    std::vector<pid_t> found;
    const std::string id = std::to_string(ancestor);
    std::error_code gone;
    fs::directory_iterator tasks("/proc/" + id + "/task", gone);
    for (; !gone && tasks != fs::directory_iterator(); tasks.increment(gone)) {
      std::ifstream children(tasks->path() / "children");
      for (pid_t child; children >> child;) {
        found.push_back(child);
        const auto more = below(child);
        found.insert(found.end(), more.begin(), more.end());
      }
    }
    return found;
  }

  std::string log_;
  double start_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// True where this build has no MPI; says so.
inline bool no_mpirun() {
  if (std::string(ZRT_MPIRUN).empty()) WARN("built without MPI: this test shows nothing");
  return std::string(ZRT_MPIRUN).empty();
}

// A run that tests start again and again with the same outcome, unless a fault changes it.
struct RepeatedRun : Folder {
  std::string expected;  // state_xxh3
  size_t last;           // step
  explicit RepeatedRun(const std::string& name, const std::string& set = " --set run.checkpoint_interval=3",
                       size_t last_step = 40)
      : Folder(name), last(last_step) {
    build_data(*this);
    write("c.json", config());
    fs::create_directories(path / "shm");
    more = " --set data.validation=null --set run.timeout_seconds=60 --steps " + std::to_string(last) + set;
    const Result once = run_command(train());
    INFO(once.text);
    REQUIRE(once.code == 0);
    expected = state();
    fs::remove_all(path / "run");
  }

  std::string more;
  std::string program(const std::string& command) const {
    return std::string(ZRT_BINARY_DIR) + "/zrt " + command + " " + (*this / "c.json");
  }
  std::string train() const { return program("train") + " --ranks 2 --resume auto" + more; }
  std::string launch() const { return program("launch") + " --ranks 2 --delay 0.01" + more; }
  // Shared memory of Open MPI goes where the test can see what is left of it.
  std::string environment() const {
    return "env ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
           "OMPI_MCA_btl_vader_backing_directory=" +
           (*this / "shm") + " ";
  }
  std::string mpirun() const { return ZRT_MPIRUN " --oversubscribe --bind-to none"; }
  std::string train_mpi(const std::string& before = "") const {
    return environment() + mpirun() + " -n 2 " + before + program("train") + " --resume auto" + more;
  }
  std::string launch_mpi() const {
    return environment() + program("launch") + " --ranks 2 --delay 0.01 --mpi --mpirun '" + mpirun() + "'" + more;
  }
  std::string log() const { return *this / "log"; }
  fs::path store() const { return path / "run/checkpoints"; }
  std::string state() const { return read_json(*this / "run/summary.json")["state_xxh3"]; }
  void reset() const { fs::remove_all(path / "run"); }
  size_t steps() const { return read_lines(path / "run/metrics.jsonl").size(); }

  // Returns at a random moment of the first two thirds of the run.
  void await_moment(Process& process, Moments& moments) const {
    await_step(process, 1 + moments.below(last * 2 / 3));
    sleep_for(moments.between(0, 0.005));
  }
  void await_step(Process& process, size_t step) const {
    const bool there = await([&] { return steps() >= step || process.ended(); }) && steps() >= step;
    INFO(process.text());
    REQUIRE(there);
  }
  // Waits until no process of the run is left: mpirun does not wait for ranks that it kills.
  void await_gone() const {
    CHECK(await([&] { return processes().empty(); }));
  }
  // The run has ended as if nothing had happened and left nothing: no files, no shared memory, no process.
  void check_end() const {
    CHECK(state() == expected);
    CHECK(steps() == last);
    require_whole(store());
    CHECK(run_zrt("checkpoint verify " + (*this / "run")).code == 0);
    check_clean();
  }
  void check_clean() const {
    await_gone();
    check_no_leftovers(path / "run");
    CHECK(fs::is_empty(path / "shm"));
  }
  // The command lines of the run's processes.
  std::vector<std::string> processes() const {
    std::vector<std::string> found;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc", gone)) {
      if (std::atoi(entry.path().filename().c_str()) <= 0) continue;
      const std::string line = read_file(entry.path() / "cmdline");
      if (contains(line, *this / "c.json")) found.push_back(line);
    }
    return found;
  }
};

}  // namespace zrt::testing
