// The end of a run whose supervisor or launcher has died.
#pragma once
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <chrono>

namespace zrt::runtime {

// A process that asked the kernel for a signal at its parent's death, or was started so, and whose parent has died.
// Nobody would end it if it hung: the kernel kills it some time after it has seen the signal, which one that somebody
// stopped (SIGSTOP) sees when it is continued.
class Orphan {
 public:
  Orphan();  // while the parent lives
  ~Orphan();
  Orphan(const Orphan&) = delete;
  Orphan& operator=(const Orphan&) = delete;

  void set_limit(std::chrono::seconds limit) { limit_ = limit.count(); }
  std::chrono::seconds limit() const { return std::chrono::seconds(limit_); }

  bool is() const;  // whether the parent has died. This and the next are safe in a signal handler
  // Starts the time where the parent has died, once.
  void bound();

 private:
  bool tied_ = false;  // the parent's death sends a signal
  pid_t parent_;
  std::atomic<int64_t> limit_{600};
  std::atomic<bool> bound_ = false;
  bool has_timer_ = false;
  timer_t timer_{};
};

}  // namespace zrt::runtime
