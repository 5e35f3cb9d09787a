#include "runtime/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

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
                                                           "positions",
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
                                                           "loads of experts",
                                                           "shares",
                                                           "copied",
                                                           "copy",
                                                           "proposal",
                                                           "refined",
                                                           "packed"};
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

namespace {

template <class Is>
GroupId group_that(const std::vector<Group>& groups, Is is) {
  const auto found = std::find_if(groups.begin(), groups.end(), is);
  if (found != groups.end()) return static_cast<GroupId>(found - groups.begin());
  throw core::ProgramError("a program set lacks the group of ranks that one of its ops communicates in");
}

}  // namespace

GroupId ProgramSet::find_group(Axes axes) const {
  return group_that(groups, [&](const Group& group) { return group.axes == axes; });
}

GroupId ProgramSet::find_group(std::string_view name) const {
  return group_that(groups, [&](const Group& group) { return group.name == name; });
}

namespace {

// Takes in every field of what makes up a program set. Each is bound by its place, so that a struct with one more does
// not compile until that is taken in, too.
class Fingerprint {
 public:
  std::string hex() { return hash_.hex(); }

  template <class T>
  void add(const T& value) requires std::is_integral_v<T> || std::is_enum_v<T> {
    const auto number = static_cast<uint64_t>(value);
    hash_.update(&number, sizeof number);
  }
  void add(const std::string& text) {
    add(text.size());
    hash_.update(text.data(), text.size());
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& one : list) add(one);
  }
  template <class T, size_t n>
  void add(const std::array<T, n>& list) {
    for (const T& one : list) add(one);
  }
  void add(const Index& index) {
    const auto& [first, step] = index;
    all(first, step);
  }
  void add(const models::Parts& parts) {
    const auto& [first, end] = parts;
    all(first, end);
  }
  void add(const Buffer& buffer) {
    const auto& [name, category, life, bytes, slots, offset, tier, whole_blocks, slot_table] = buffer;
    all(name, category, life, bytes, slots, offset, tier, whole_blocks, slot_table);
  }
  void add(const Access& access) {
    const auto& [buffer, role, use, slot, port] = access;
    all(buffer, role, use, slot, port);
  }
  void add(const Lane& lane) {
    const auto& [kind, group] = lane;
    all(kind, group);
  }
  void add(const RankGroups& ranks) {
    const auto& [size, stride, first] = ranks;
    all(size, stride, first);
  }
  void add(const Group& group) {
    const auto& [axes, name, ranks, staging] = group;
    all(axes.bits(), name, ranks, staging);
  }
  void add(const Op& op) {
    const auto& [kind, lane, group, name, block, parts, half, again, port, collective, microbatch, round, first_owner,
                 row, fixed, units, accumulate, shard_bytes, accesses, waits] = op;
    all(kind, lane, group, name, block, parts, half, again, port, collective, microbatch, round, first_owner, row,
        fixed, units, accumulate, shard_bytes, accesses, waits);
  }
  void add(const Segment& segment) {
    const auto& [first, count, repeat] = segment;
    all(first, count, repeat);
  }
  void add(const Program& program) {
    const auto& [phase, ops, segments] = program;
    all(phase, ops, segments);
  }
  void add(const ProgramSet& set) {
    const auto& [buffers, lanes, groups, programs, arena_bytes] = set;
    all(buffers, lanes, groups, programs, arena_bytes);
  }

 private:
  template <class... Fields>
  void all(const Fields&... fields) {
    (add(fields), ...);
  }

  core::Hash hash_;
};

}  // namespace

std::string ProgramSet::xxh3() const {
  Fingerprint fingerprint;
  fingerprint.add(*this);
  return fingerprint.hex();
}

}  // namespace zrt::runtime
