#include "runtime/plan/comm_bytes.h"

#include "runtime/ops/spec.h"

namespace zrt::runtime {

uint64_t received_bytes(const ProgramSet& set, const Op& op, const Layout& layout) {
  const Volume volume = spec(op.kind).volume(set, op, layout);
  if (volume.received) return *volume.received;
  const auto ranks = static_cast<uint64_t>(set.group(op).ranks.size);
  return static_cast<uint64_t>(volume.bytes * volume.rounds) / ranks * (ranks - 1);
}

CommBytes comm_bytes(const ProgramSet& set, const Program& program, const Layout& layout) {
  CommBytes bytes;
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      const Op& op = program.ops[id];
      if (spec(op.kind).communicates()) bytes[op.kind] += received_bytes(set, op, layout) * segment.repeat;
    }
  }
  return bytes;
}

uint64_t total(const CommBytes& bytes) {
  uint64_t sum = 0;
  for (const auto& [kind, count] : bytes) sum += count;
  return sum;
}

}  // namespace zrt::runtime
