// The hash of a program set stands for "the programs are equal": it knows every field of everything in the set.
#include <array>
#include <tuple>
#include <type_traits>

#include "catch.h"
#include "runtime/program/program.h"

namespace zrt::program_hash_test {

using namespace zrt::runtime;

namespace {

// Every field of a struct, in order: one more does not compile until it is named here.
auto fields(Index& index) {
  auto& [first, step] = index;
  return std::tie(first, step);
}
auto fields(models::Parts& parts) {
  auto& [first, end] = parts;
  return std::tie(first, end);
}
auto fields(Buffer& buffer) {
  auto& [name, category, life, bytes, slots, offset, tier, whole_blocks, slot_table] = buffer;
  return std::tie(name, category, life, bytes, slots, offset, tier, whole_blocks, slot_table);
}
auto fields(Access& access) {
  auto& [buffer, role, use, slot, port] = access;
  return std::tie(buffer, role, use, slot, port);
}
auto fields(Lane& lane) {
  auto& [kind, group] = lane;
  return std::tie(kind, group);
}
auto fields(RankGroups& ranks) {
  auto& [size, stride, first] = ranks;
  return std::tie(size, stride, first);
}
auto fields(Group& group) {
  auto& [axes, name, ranks, staging] = group;
  return std::tie(axes, name, ranks, staging);
}
auto fields(Op& op) {
  auto& [kind, lane, group, name, block, parts, half, again, port, collective, microbatch, round, first_owner, row,
         fixed, units, accumulate, shard_bytes, accesses, waits] = op;
  return std::tie(kind, lane, group, name, block, parts, half, again, port, collective, microbatch, round, first_owner,
                  row, fixed, units, accumulate, shard_bytes, accesses, waits);
}
auto fields(Segment& segment) {
  auto& [first, count, repeat] = segment;
  return std::tie(first, count, repeat);
}
auto fields(Program& program) {
  auto& [phase, ops, segments] = program;
  return std::tie(phase, ops, segments);
}
auto fields(ProgramSet& set) {
  auto& [buffers, lanes, groups, programs, arena_bytes] = set;
  return std::tie(buffers, lanes, groups, programs, arena_bytes);
}

Op op_of(const std::string& name) {
  Op op;
  op.name = name;
  op.units = {0, 1};
  op.accumulate = {0, 1};
  op.accesses = {{0, Role::weight, Use::read, {0, 1}, 0}, {1, Role::grad, Use::update, {}, 0}};
  op.waits = {0};
  return op;
}

ProgramSet set_of() {
  ProgramSet set;
  set.buffers = {{"first", core::Category::weights, Life::carried, 64}, {"second"}};
  set.buffers[1].slot_table = {0, 1};
  set.lanes = {{LaneKind::compute, ""}, {LaneKind::comm, "dp"}};
  set.groups = {{data_axes, "dp", {2}}};
  set.programs = {{"step", {op_of("one"), op_of("two")}, {{0, 2, 1}}}};
  return set;
}

std::string at(const std::string& path, size_t i) {
  return path + "." + std::to_string(i);
}

class EveryField {
 public:
  explicit EveryField(ProgramSet set) : set_(std::move(set)), hash_(set_.xxh3()) { visit(set_, "set"); }
  size_t count() const { return count_; }

 private:
  // `value` differs now: so must the hash.
  void differs(const std::string& path) {
    INFO("field " << path);
    ++count_;
    CHECK(set_.xxh3() != hash_);
  }

  template <class T>
  void visit(T& value, const std::string& path) {
    const T before = value;
    if constexpr (std::is_same_v<T, bool>) {
      value = !value;
      differs(path);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(static_cast<uint64_t>(value) + 1);
      differs(path);
    } else if constexpr (std::is_same_v<T, Axes>) {
      value = value == all_axes ? Axes() : all_axes;
      differs(path);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value += "x";
      differs(path);
    } else {
      std::apply(
          [&](auto&... members) {
            size_t i = 0;
            (visit(members, at(path, i++)), ...);
          },
          fields(value));
    }
    value = before;
  }
  template <class T>
  void visit(std::vector<T>& list, const std::string& path) {
    const std::vector<T> before = list;
    list.emplace_back();
    differs(path + " with one more");
    list = before;
    for (size_t i = 0; i < list.size(); ++i) visit(list[i], at(path, i));
  }
  template <class T, size_t n>
  void visit(std::array<T, n>& list, const std::string& path) {
    for (size_t i = 0; i < n; ++i) visit(list[i], at(path, i));
  }

  ProgramSet set_;
  const std::string hash_;
  size_t count_ = 0;
};

}  // namespace

TEST_CASE("the hash of a program set changes with every field of it, and equal sets have the same") {
  CHECK(set_of().xxh3() == set_of().xxh3());
  CHECK(EveryField(set_of()).count() > 100);
}

TEST_CASE("what stands in one list of a program set is not taken for what stands in the next") {
  ProgramSet one = set_of(), other = set_of();
  one.programs[0].ops[0].units = {0}, one.programs[0].ops[0].accumulate = {0, 1};
  other.programs[0].ops[0].units = {0, 0}, other.programs[0].ops[0].accumulate = {1};
  CHECK(one.xxh3() != other.xxh3());
}

}  // namespace zrt::program_hash_test
