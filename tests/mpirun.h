// Runs programs under mpirun and returns what they print.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace zrt::testing {

struct JobResult {
  int code;
  std::string text;  // stdout and stderr
};

inline JobResult run_shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

// As root too, with more ranks than cores, ended after ten minutes whatever happens: a busy machine takes its time.
inline std::string mpirun(int ranks, const std::string& options = "") {
  // Open MPI itself leaks: that is not for AddressSanitizer to report.
  return "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 "
         "600 " ZRT_MPIRUN " --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 " +
         options + " -n " + std::to_string(ranks) + " ";
}

// Ranks 0, 2, … on one machine and 1, 3, … on another, as far as zrt knows.
inline std::string on_two_machines(const std::string& command) {
  return "sh -c 'ZRT_HOST_GROUP=$((OMPI_COMM_WORLD_RANK % 2)) exec " + command + "'";
}

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace zrt::testing
