// The mesh of ranks: axes in one order, of which the first changes fastest from rank to rank. Numbers of ranks become
// places along axes here alone. A group of ranks is a set of axes: the ranks that differ along these alone.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::core {

enum class Axis : uint8_t {
  tensor,    // ranks that share the work of each block
  expert,    // ranks that do the same on other samples, each with experts of its own
  inner,     // ranks of an island that do the same on other samples: of a host, or of what fast links connect
  outer,     // islands of a stage
  pipeline,  // stages
};
// Facts of each axis, in the same order.
struct AxisFacts {
  const char* name;   // in messages
  const char* group;  // the name of groups of ranks that differ along it alone; null: not made for it
  bool data;          // its ranks do the same on other samples
};
inline constexpr AxisFacts axis_facts[] = {{"tensor", "tp", false},
                                           {"expert", "ep", true},
                                           {"inner", nullptr, true},
                                           {"outer", nullptr, true},
                                           {"pipeline", nullptr, false}};
inline constexpr int axis_count = sizeof(axis_facts) / sizeof(axis_facts[0]);

class Axes {  // a set
 public:
  constexpr Axes() = default;
  ZRT_HD constexpr Axes(Axis axis) : bits_(static_cast<uint8_t>(1u << static_cast<unsigned>(axis))) {}  // NOLINT
  ZRT_HD constexpr bool has(int axis) const { return (bits_ >> axis & 1) != 0; }
  constexpr bool has(Axis axis) const { return has(static_cast<int>(axis)); }
  constexpr bool within(Axes other) const { return (bits_ & ~other.bits_) == 0; }
  constexpr uint8_t bits() const { return bits_; }
  bool operator==(const Axes&) const = default;
  constexpr Axes operator|(Axes other) const {
    Axes both = *this;
    both.bits_ |= other.bits_;
    return both;
  }
  constexpr Axes without(Axes other) const {
    Axes rest;
    rest.bits_ = bits_ & static_cast<uint8_t>(~other.bits_);
    return rest;
  }

 private:
  uint8_t bits_ = 0;
};
constexpr Axes operator|(Axis a, Axis b) {
  return Axes(a) | b;
}
inline constexpr Axes data_axes = [] {
  Axes axes;
  for (int a = 0; a < axis_count; ++a) axes = axis_facts[a].data ? axes | static_cast<Axis>(a) : axes;
  return axes;
}();
inline constexpr Axes island_axes = Axis::inner;                           // ranks of an island
inline constexpr Axes outer_axes = data_axes.without(island_axes);         // ranks of one place in their islands
inline constexpr Axes expert_data_axes = data_axes.without(Axis::expert);  // ranks with the same experts
inline constexpr Axes stage_axes = data_axes | Axis::tensor;
inline constexpr Axes all_axes = stage_axes | Axis::pipeline;

// Groups of one kind, of which each rank is in one. Ranks before `first` are alone in theirs.
struct RankGroups {
  int size = 1, stride = 1;  // ranks, and from one to the next
  int first = 0;

  bool together(int rank, int other) const { return rank == other || (rank >= first && begin(rank) == begin(other)); }
  int begin(int rank) const;  // the first rank of this one's group
  // Says that a group of `world` ranks has ranks beyond the reach of its first one: each `reach` ranks, one after
  // another, are in each other's.
  bool leave(int reach, int world) const;
};

class Mesh {
 public:
  Mesh() {  // one rank
    for (int& degree : degrees_) degree = 1;
  }
  // The data-parallel size is ranks / (tensor * pipeline), in islands of `inner`. Throws ConfigError naming the numbers
  // when that is not a whole number of at least 1, or when a number is outside 1..max_ranks; the caller sees to it that
  // islands and ranks with other experts divide the data-parallel size.
  Mesh(int ranks, int tensor, int pipeline, int inner = 1, int expert = 1);

  static constexpr int max_ranks = 1 << 20;

  ZRT_HD int degree(Axes axes) const {
    int ranks = 1;
    for (int a = 0; a < axis_count; ++a) ranks *= axes.has(a) ? degrees_[a] : 1;
    return ranks;
  }
  int world() const { return degree(all_axes); }
  int tensor() const { return degree(Axis::tensor); }
  int data() const { return degree(data_axes); }
  int inner() const { return degree(island_axes); }
  int expert() const { return degree(Axis::expert); }
  int pipeline() const { return degree(Axis::pipeline); }
  int stage_ranks() const { return degree(stage_axes); }
  // The axes that tell ranks apart: all, or the data-parallel ones where these are enough.
  Axes everyone() const { return data() == world() ? data_axes : all_axes; }

  // A rank's number among those of its group.
  ZRT_HD int place(Axes axes, int rank) const {
    int number = 0, step = 1;
    for (int a = 0; a < axis_count; ++a) {
      if (axes.has(a)) number += rank % degrees_[a] * step, step *= degrees_[a];
      rank /= degrees_[a];
    }
    return number;
  }
  int stage(int rank) const { return place(Axis::pipeline, rank); }
  int first_of(int stage) const { return stage * stage_ranks(); }

  // The mesh of a group's ranks alone, numbered by their places in it.
  Mesh part(Axes axes) const;
  // Throws core::ProgramError when an axis of several ranks lies between two of the axes.
  RankGroups groups(Axes axes) const;
  // The ranks of one place in two stages next to each other, by the stages before even or odd boundaries; and of the
  // first stage and the last.
  RankGroups neighbours(bool odd) const { return {2, stage_ranks(), odd ? stage_ranks() : 0}; }
  RankGroups ends() const { return {2, first_of(pipeline() - 1)}; }
  // The ranks of one place in each so many stages next to each other.
  RankGroups stages_together(int stages) const { return {stages, stage_ranks()}; }

  bool operator==(const Mesh&) const = default;

 private:
  int degrees_[axis_count];
};

}  // namespace zrt::core
