// Signals to a training run. SIGUSR1 saves. Those of stop_signals.h save and stop; what follows within two seconds
// counts as the same wish, and a later one ends the process at once.
//
// SIGTERM in a run of several processes comes from their launcher, which kills those that are left after some time. It
// may also be sent to a run that hangs. So the process first prints the last calls of its rank. One whose parent died
// has a limited time to end, see orphan.h.
#pragma once
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "comm/transport.h"
#include "runtime/train/launch/orphan.h"

namespace zrt::tools {

class RunSignals {
 public:
  // `several`: a run of several processes. Made before any other thread, because it then takes SIGTERM away from all
  // threads that are started later; destroyed before the transport. One at a time.
  explicit RunSignals(bool several);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  void set_transport(const comm::Transport& transport);
  // Takes the time that ranks wait for each other. A run whose supervisor died has twice that to end, or five times its
  // longest step.
  void set_timeout(std::chrono::seconds timeout) { orphan_.set_limit(2 * timeout); }
  // Bits of runtime::Request. A request to save is passed on once, one to stop stays.
  uint32_t requests();
  bool stopping() const;  // whether a stop has been asked for; any thread

 private:
  void wait();
  void tell_last_calls();
  runtime::Orphan orphan_;
  std::chrono::steady_clock::time_point last_requests_{};
  std::mutex mutex_;  // guards transport_
  const comm::Transport* transport_ = nullptr;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

// Open MPI's mpirun gives ranks a time to end before it kills them. Without checkpoints the last of a run's steps is
// then often lost: a sentence that says so and what to do, for a run of several processes; "" for others.
std::string short_notice(int64_t checkpoint_interval);

}  // namespace zrt::tools
