// The last collectives of one rank and its counters. Not thread-safe: the owner locks.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "comm/communicator.h"

namespace zrt::comm {

class FlightRecorder {
 public:
  static constexpr size_t capacity = 1000;  // records kept

  // Opens the record of a call that will receive `elements` and `bytes` from other ranks.
  void start(CollectiveKind kind, std::string_view label, uint64_t elements, uint64_t bytes);
  // Closes the open record and counts it; `between_hosts` of its bytes came from other hosts.
  void finish(uint64_t between_hosts);

  uint64_t sequence() const { return sequence_; }  // number of calls started; the first record has number 1
  const Counters& counters() const { return counters_; }
  std::vector<FlightRecord> records(size_t last = SIZE_MAX) const;  // oldest first
  std::string format(size_t last) const { return format(records(last)); }
  std::string format(const std::vector<FlightRecord>& records) const;  // one line per record; they may be another's

 private:
  double now() const;
  std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::deque<FlightRecord> records_;
  Counters counters_;
  uint64_t sequence_ = 0, elements_ = 0;
};

}  // namespace zrt::comm
