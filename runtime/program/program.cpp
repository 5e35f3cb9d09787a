#include "runtime/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/arena.h"
#include "core/error.h"
#include "core/hash.h"

namespace zrt::runtime {

uint64_t Buffer::alignment() const {
  return tier == core::Tier::nvme || whole_blocks ? io_alignment : 64;
}

uint64_t Buffer::padded() const {
  return alignment() == io_alignment ? (bytes + io_alignment - 1) / io_alignment * io_alignment : bytes;
}

// Nothing runs past the end of what lies in a file: only whole buffers are written there.
uint64_t Buffer::stride() const {
  const uint64_t zone = tier == core::Tier::nvme ? 0 : core::red_zone_bytes;
  return (padded() + zone + alignment() - 1) / alignment() * alignment();
}

std::string_view role_name(Role role) {
  constexpr std::array<std::string_view, role_count> names{"tokens",
                                                           "targets",
                                                           "input",
                                                           "output",
                                                           "gradient of output",
                                                           "gradient of input",
                                                           "saved",
                                                           "recomputed",
                                                           "held",
                                                           "port",
                                                           "gradient of port",
                                                           "workspace",
                                                           "cache",
                                                           "weight",
                                                           "local gradient",
                                                           "gradient",
                                                           "master weights",
                                                           "state",
                                                           "sums",
                                                           "work",
                                                           "whole state",
                                                           "parts of all",
                                                           "partial state",
                                                           "snapshot",
                                                           "staging",
                                                           "control",
                                                           "shares",
                                                           "copied",
                                                           "copy",
                                                           "proposal",
                                                           "refined"};
  return names[static_cast<size_t>(role)];
}

std::string Lane::name() const {
  constexpr std::array<std::string_view, 6> names{"compute", "to_device", "to_host", "io", "comm", "host"};
  const std::string_view kind_name = names[static_cast<size_t>(kind)];
  return group.empty() ? std::string(kind_name) : fmt::format("{}:{}", kind_name, group);
}

bool ProgramSet::has(std::string_view phase) const {
  return std::any_of(programs.begin(), programs.end(), [&](const Program& program) { return program.phase == phase; });
}

const Program& ProgramSet::program(std::string_view phase) const {
  for (const Program& program : programs) {
    if (program.phase == phase) return program;
  }
  throw core::ProgramError(fmt::format("this run has no program for phase '{}'", phase));
}

BufferId ProgramSet::add(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size() - 1);
}

uint8_t ProgramSet::lane(LaneKind kind, std::string_view group) {
  for (size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l].kind == kind && lanes[l].group == group) return static_cast<uint8_t>(l);
  }
  lanes.push_back({kind, std::string(group)});
  return static_cast<uint8_t>(lanes.size() - 1);
}

GroupId ProgramSet::find_group(GroupKind kind) const {
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].kind == kind) return static_cast<GroupId>(g);
  }
  throw core::ProgramError("a program set lacks the group of ranks that one of its ops communicates in");
}

std::string ProgramSet::xxh3() const {
  core::Hash hash;
  const auto number = [&](uint64_t value) { hash.update(&value, sizeof value); };
  const auto text = [&](const std::string& value) {
    number(value.size());
    hash.update(value.data(), value.size());
  };
  for (const Buffer& buffer : buffers) {
    text(buffer.name), number(buffer.bytes), number(buffer.slots), number(uint64_t(buffer.tier));
    for (uint32_t slot : buffer.slot_table) number(slot);
  }
  for (const Lane& lane : lanes) text(lane.name());
  for (const Group& group : groups)
    text(group.name), number(uint64_t(group.size)), number(uint64_t(group.stride)), number(uint64_t(group.first));
  for (const Program& program : programs) {
    text(program.phase);
    for (const Segment& segment : program.segments) number(segment.count), number(segment.repeat);
    for (const Op& op : program.ops) {
      text(op.name);
      for (uint64_t value : {uint64_t(op.kind), uint64_t(op.lane), uint64_t(op.group), uint64_t(op.first_owner),
                             uint64_t(op.parts.first), uint64_t(op.parts.end), uint64_t(op.half), uint64_t(op.port)})
        number(value);
      for (OpId other : op.waits) number(other);
      for (uint32_t unit : op.units) number(unit);
      for (const Access& access : op.accesses) number(access.buffer), number(uint64_t(access.use));
    }
  }
  return hash.hex();
}

}  // namespace zrt::runtime
