#include "runtime/plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// `i` is the turn, from 0, of a segment that is run several times.
std::string index_text(Index index, uint32_t repeat) {
  if (index.step == 0 || repeat == 1) return fmt::format("{}", index.first);
  const std::string turns = index.step == 1 ? "i" : fmt::format("{}i", index.step);
  return index.first == 0 ? turns : fmt::format("{}+{}", index.first, turns);
}

std::string access_text(const ProgramSet& set, const Access& access, uint32_t repeat) {
  const Buffer& buffer = set.buffers[access.buffer];
  if (buffer.slots == 1) return buffer.name;
  if (buffer.slot_table.empty()) return fmt::format("{}[{}]", buffer.name, index_text(access.slot, repeat));
  if (access.slot.step == 0 || repeat == 1) return fmt::format("{}[{}]", buffer.name, access.slot_of(buffer, 0));
  return fmt::format("{}[slot of {}]", buffer.name, index_text(access.slot, repeat));
}

// " | reads a, b | writes c"
std::string accesses_text(const ProgramSet& set, const Op& op, uint32_t repeat) {
  std::string text;
  for (const auto& [use, word] : {std::pair{Use::read, "reads"}, {Use::update, "updates"}, {Use::write, "writes"}}) {
    std::vector<std::string> names;
    for (const Access& access : op.accesses) {
      if (access.use == use) names.push_back(access_text(set, access, repeat));
    }
    if (!names.empty()) text += fmt::format(" | {} {}", word, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace

std::string program_text(const ProgramSet& set, const Program& program) {
  std::string text = fmt::format("program {}\n", program.phase);
  size_t lane_width = 0;
  for (const Op& op : program.ops) lane_width = std::max(lane_width, set.lanes[op.lane].name().size());
  for (const Segment& segment : program.segments) {
    text += segment.repeat == 1 ? "segment\n" : fmt::format("segment, {} times\n", segment.repeat);
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      const Op& op = program.ops[id];
      text += fmt::format("{:>5} {:<{}}  {}", id, set.lanes[op.lane].name(), lane_width, op.name);
      if (spec(op.kind).of_microbatch) text += fmt::format(" #{}", index_text(op.microbatch, segment.repeat));
      text += accesses_text(set, op, segment.repeat);
      if (!op.waits.empty()) text += fmt::format(" | waits {}", fmt::join(op.waits, " "));
      text += '\n';
    }
  }
  return text;
}

std::string buffers_text(const ProgramSet& set, const std::string& phase) {
  std::vector<uint8_t> listed(set.buffers.size());
  std::string text = "buffers\n";
  constexpr std::array lives{"transient", "reserved", "carried"};
  for (const Program& program : set.programs) {
    if (!phase.empty() && program.phase != phase) continue;
    for (const Op& op : program.ops) {
      for (const Access& access : op.accesses) {
        if (std::exchange(listed[access.buffer], uint8_t{1})) continue;
        const Buffer& buffer = set.buffers[access.buffer];
        text += fmt::format("  {:<6} {:>10} B{} at {:<10} {:<9} {:<11} {}\n",
                            core::tier_names[static_cast<size_t>(buffer.tier)], buffer.bytes,
                            buffer.slots == 1 ? std::string() : fmt::format(" × {}", buffer.slots), buffer.offset,
                            lives[static_cast<size_t>(buffer.life)],
                            core::category_names[static_cast<size_t>(buffer.category)], buffer.name);
      }
    }
  }
  return text;
}

}  // namespace zrt::runtime
