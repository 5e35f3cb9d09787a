#include "runtime/train/launch/orphan.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace zrt::runtime {

Orphan::Orphan() : parent_(getppid()) {
  int signal = 0;
  tied_ = prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal != 0;
  if (!tied_) return;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;  // the one that a process that was stopped cannot put off
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
}

Orphan::~Orphan() {
  if (has_timer_) timer_delete(timer_);
}

bool Orphan::is() const {
  return tied_ && getppid() != parent_;
}

void Orphan::bound() {
  if (!is() || !has_timer_ || bound_.exchange(true)) return;
  itimerspec time{};
  time.it_value.tv_sec = limit_;
  timer_settime(timer_, 0, &time, nullptr);
}

}  // namespace zrt::runtime
