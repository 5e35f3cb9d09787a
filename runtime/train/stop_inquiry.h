// Asks all processes of a run, between the batches of an evaluation, whether one of them is to stop.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>

#include "comm/transport.h"

namespace zrt::runtime {

// Several processes ask each other about once a second, at the same batches: how many lie between follows from what the
// slowest of them took for the last ones.
class StopInquiry {
 public:
  // `own` says it of this process; empty: never.
  StopInquiry(comm::Transport& transport, std::function<bool()> own, std::chrono::milliseconds timeout);

  // Before each batch: whether all are to stop. Collective over processes.
  bool ask();

 private:
  comm::Transport& transport_;
  const std::function<bool()> own_;
  const std::chrono::milliseconds timeout_;
  int64_t batches_ = 0, next_ = 0, apart_ = 1;  // begun; when to ask again; batches since the last time
  std::chrono::steady_clock::time_point last_;
};

}  // namespace zrt::runtime
