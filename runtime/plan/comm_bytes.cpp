#include "runtime/plan/comm_bytes.h"

#include "runtime/ops/spec.h"

namespace zrt::runtime {

CommBytes comm_bytes(const ProgramSet& set, const Program& program, const Layout& layout) {
  CommBytes bytes;
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      const Op& op = program.ops[id];
      const OpSpec& row = spec(op.kind);
      if (!row.communicates()) continue;
      const Volume volume = row.volume(set, op, layout);
      const auto ranks = static_cast<uint64_t>(set.group(op).ranks.size);
      if (volume.received) {
        bytes[op.kind] += *volume.received * segment.repeat;
        continue;
      }
      bytes[op.kind] += static_cast<uint64_t>(volume.bytes * volume.rounds) / ranks * (ranks - 1) * segment.repeat;
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
