#include "comm/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::comm {

double FlightRecorder::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count();
}

void FlightRecorder::start(CollectiveKind kind, std::string_view label, uint64_t elements, uint64_t bytes) {
  if (records_.size() == capacity) records_.pop_front();
  records_.push_back({++sequence_, kind, std::string(label), bytes, false, now(), 0});
  elements_ = elements;
}

Counters& Counters::operator+=(const Counters& other) {
  for (size_t kind = 0; kind < collective_kind_count; ++kind) {
    calls[kind] += other.calls[kind];
    elements[kind] += other.elements[kind];
    bytes[kind] += other.bytes[kind];
    bytes_between_hosts[kind] += other.bytes_between_hosts[kind];
  }
  return *this;
}

Counters& Counters::operator-=(const Counters& other) {
  for (size_t kind = 0; kind < collective_kind_count; ++kind) {
    calls[kind] -= other.calls[kind];
    elements[kind] -= other.elements[kind];
    bytes[kind] -= other.bytes[kind];
    bytes_between_hosts[kind] -= other.bytes_between_hosts[kind];
  }
  return *this;
}

void FlightRecorder::finish(uint64_t between_hosts) {
  FlightRecord& record = records_.back();
  record.finished = true;
  record.end_seconds = now();
  const size_t kind = static_cast<size_t>(record.kind);
  ++counters_.calls[kind];
  counters_.elements[kind] += elements_;
  counters_.bytes[kind] += record.bytes;
  counters_.bytes_between_hosts[kind] += between_hosts;
}

std::vector<FlightRecord> FlightRecorder::records(size_t last) const {
  const size_t count = std::min(last, records_.size());
  return {records_.end() - static_cast<std::ptrdiff_t>(count), records_.end()};
}

std::string FlightRecorder::format(const std::vector<FlightRecord>& records) const {
  std::string text;
  for (const FlightRecord& record : records) {
    const std::string state = record.finished
                                  ? fmt::format("finished after {:.6f} s", record.end_seconds - record.start_seconds)
                                  : fmt::format("unfinished after {:.6f} s", now() - record.start_seconds);
    text += fmt::format("    #{} {} \"{}\" {} B, started at {:.6f} s, {}\n", record.sequence,
                        collective_kind_name(record.kind), record.label, record.bytes, record.start_seconds, state);
  }
  return text.empty() ? "    no call yet\n" : text;
}

}  // namespace zrt::comm
