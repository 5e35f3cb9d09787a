#include "runtime/program/roll.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace zrt::runtime {
namespace {

constexpr size_t fewest_turns = 4;  // two of them are peeled off, and one alone is no repetition

// Of each work, how many places behind it the same stands with a microbatch `period` higher; 0 where it does not.
std::vector<size_t> distances(std::span<const Work> list, int32_t period) {
  std::map<std::tuple<WorkKind, int32_t, int32_t>, size_t> later;
  std::vector<size_t> distance(list.size());
  for (size_t i = list.size(); i-- > 0;) {
    const Work& work = list[i];
    const auto next = later.find({work.kind, work.chunk, work.microbatch + period});
    if (next != later.end()) distance[i] = next->second - i;
    later[{work.kind, work.chunk, work.microbatch}] = i;
  }
  return distance;
}

}  // namespace

std::vector<Turns> roll(std::span<const Work> list, int32_t period) {
  const std::vector<size_t> distance = distances(list, period);
  std::vector<Turns> parts;
  size_t done = 0;
  const auto add = [&](size_t end, uint32_t repeat, size_t next) {
    if (end > done) parts.push_back({{list.begin() + done, list.begin() + end}, repeat, repeat > 1 ? period : 0});
    done = next;
  };
  for (size_t i = 0; i < list.size();) {
    const size_t length = distance[i];
    size_t end = i;
    while (end < list.size() && distance[end] == length) ++end;
    const size_t turns = length == 0 ? 0 : (end - i) / length + 1;
    if (turns < fewest_turns) {
      i = end;
      continue;
    }
    const size_t second = i + length, last = i + (turns - 1) * length;
    add(second, 1, second);
    add(second + length, static_cast<uint32_t>(turns - 2), last);
    i = last + length;
  }
  add(list.size(), 1, list.size());
  return parts;
}

std::vector<Work> expand(std::span<const Turns> turns) {
  std::vector<Work> list;
  for (const Turns& t : turns) {
    for (uint32_t turn = 0; turn < t.repeat; ++turn) {
      for (Work work : t.works) {
        work.microbatch += static_cast<int32_t>(turn) * t.period;
        list.push_back(work);
      }
    }
  }
  return list;
}

std::vector<Turns> cut(std::span<const Turns> turns, int32_t period) {
  std::vector<Turns> parts;
  for (const Turns& t : turns) {
    if (t.repeat > 1) {
      parts.push_back(t);
      continue;
    }
    for (size_t i = 0; i < t.works.size(); ++i) {
      if (i == 0 || t.works[i].microbatch / period != t.works[i - 1].microbatch / period) parts.emplace_back();
      parts.back().works.push_back(t.works[i]);
    }
  }
  return parts;
}

}  // namespace zrt::runtime
