#include "comm/mpi/shared_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "comm/mpi/library.h"

namespace zrt::comm {
namespace {

// A number that the launcher gave to this process; -1 without.
int launched(const char* of_open_mpi, const char* of_slurm) {
  const char* value = std::getenv(of_open_mpi) ? std::getenv(of_open_mpi) : std::getenv(of_slurm);
  return value ? std::atoi(value) : -1;
}

// Open MPI's files that this process has mapped: "vader_segment.HOST.USER.JOB.PROCESS", from version 5 on sm_segment.
std::set<std::string> mapped_files() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string name = line.substr(line.rfind('/') + 1);
    if (name.starts_with("vader_segment.") || name.starts_with("sm_segment.")) found.insert(line.substr(path));
  }
  return found;
}

}  // namespace

void SharedFiles::unlink(std::chrono::milliseconds timeout) {
  const std::set<std::string> files = mapped_files();
  const int process = launched("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID");
  const auto own = std::find_if(files.begin(), files.end(), [&](const std::string& file) {
    return process >= 0 && file.ends_with(fmt::format(".{}", process));
  });
  const int here = launched("OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE");
  const bool ready = own != files.end() && static_cast<int>(files.size()) == here;
  for (const std::string& text : exchange_texts(ready ? "mapped" : "not mapped", timeout)) {
    if (text != "mapped") return;
  }
  if (::unlink(own->c_str()) == 0) own_ = *own;
}

void SharedFiles::restore() const {
  if (own_.empty()) return;
  const int file = ::open(own_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
}

}  // namespace zrt::comm
