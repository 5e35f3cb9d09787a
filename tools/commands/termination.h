// SIGTERM in a run of several processes comes from the launcher (mpirun, srun), which kills a second later: there is no
// time to save. So the process prints the last calls of its rank and ends with 143.
#pragma once
#include <atomic>
#include <mutex>
#include <thread>

#include "comm/transport.h"

namespace zrt::tools {

class TerminationWatch {
 public:
  // `enabled`: a run of several processes. Made before any other thread, because it takes SIGTERM away from all threads
  // that are started later; destroyed before the transport.
  explicit TerminationWatch(bool enabled);
  ~TerminationWatch();
  TerminationWatch(const TerminationWatch&) = delete;
  TerminationWatch& operator=(const TerminationWatch&) = delete;

  void set_transport(const comm::Transport& transport);

 private:
  void wait();
  std::mutex mutex_;  // guards transport_
  const comm::Transport* transport_ = nullptr;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace zrt::tools
