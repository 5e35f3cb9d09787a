// Traffic between otherwise idle processes at a pace that another process sets through a file.
#pragma once
#include <chrono>
#include <filesystem>

#include "comm/transport.h"

namespace zrt::runtime {

// The file holds the pace in bytes per second, 0 for none, or "stop". Beside it, in FILE.moved, stands what the process
// of rank 0 has done so far.
class TrafficFile {
 public:
  static constexpr double stop = -1;
  explicit TrafficFile(std::filesystem::path file) : file_(std::move(file)) {}

  void ask(double bytes_per_second) const;  // throws DataError when it cannot be written
  double asked() const;                     // 0 when there is no such file
  struct Moved {
    uint64_t bytes = 0;  // received by a rank
    double cpu_seconds = 0;
  };
  void report(const Moved& moved) const;
  Moved moved() const;
  std::string name() const { return file_.string(); }

 private:
  std::filesystem::path file_;
};

// Every rank sends its neighbour, and receives, what rank 0 finds asked for, until "stop". Collective over processes.
void make_traffic(comm::Transport& transport, const TrafficFile& file);

}  // namespace zrt::runtime
