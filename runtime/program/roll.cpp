#include "runtime/program/roll.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

namespace zrt::runtime {
namespace {

constexpr size_t fewest_turns = 4;  // two of them are peeled off, and one alone is no repetition

// Returns for each work how many places behind it the same stands with a microbatch `period` higher; 0 where it does
// not.
std::vector<size_t> distances(std::span<const Work> list, int32_t period) {
  int32_t chunks = 0, microbatches = 0;
  for (const Work& work : list) {
    chunks = std::max(chunks, work.chunk + 1), microbatches = std::max(microbatches, work.microbatch + 1);
  }
  constexpr size_t kinds = static_cast<size_t>(WorkKind::send_gradient) + 1;
  const auto rows = static_cast<size_t>(microbatches + period), columns = static_cast<size_t>(chunks);
  const auto place = [&](const Work& work, int32_t higher) {
    return (static_cast<size_t>(work.kind) * columns + static_cast<size_t>(work.chunk)) * rows +
           static_cast<size_t>(work.microbatch + higher);
  };
  constexpr size_t nowhere = SIZE_MAX;
  std::vector<size_t> later(kinds * columns * rows, nowhere), distance(list.size());
  for (size_t i = list.size(); i-- > 0;) {
    const size_t next = later[place(list[i], period)];
    if (next != nowhere) distance[i] = next - i;
    later[place(list[i], 0)] = i;
  }
  return distance;
}

}  // namespace

namespace {

struct Stretch {  // turns of `length` works, from the first to the last
  size_t begin = 0, length = 0, turns = 0;
};

// `begins`: where a turn may begin, of a stretch of works that could begin anywhere.
template <class Begins>
std::vector<Stretch> stretches(std::span<const Work> list, int32_t period, Begins begins) {
  const std::vector<size_t> distance = distances(list, period);
  std::vector<Stretch> all;
  for (size_t i = 0; i < list.size();) {
    const size_t length = distance[i];
    size_t end = i;
    while (end < list.size() && distance[end] == length) ++end;
    if (length > 0) {
      size_t first = i;
      while (first < end && !begins(list[first])) ++first;
      const size_t turns = first < end ? (end - first) / length + 1 : 0;
      if (turns >= fewest_turns) {
        all.push_back({first, length, turns});
        i = first + turns * length;
        continue;
      }
    }
    i = end;
  }
  return all;
}

}  // namespace

std::vector<Turns> roll(std::span<const Work> list, int32_t period) {
  // Messages do not change where turns begin: passes reduce gradients by the turn.
  std::vector<Work> computing;
  std::copy_if(list.begin(), list.end(), std::back_inserter(computing), [](const Work& w) { return !links(w.kind); });
  std::set<std::tuple<WorkKind, int32_t, int32_t>> begins;
  const auto phase = [&](const Work& work) { return std::tuple(work.kind, work.chunk, work.microbatch % period); };
  for (const Stretch& stretch : stretches(computing, period, [](const Work&) { return true; })) {
    begins.insert(phase(computing[stretch.begin]));
  }
  std::vector<Turns> parts;
  size_t done = 0;
  const auto add = [&](size_t end, uint32_t repeat, size_t next) {
    if (end > done) parts.push_back({{list.begin() + done, list.begin() + end}, repeat, repeat > 1 ? period : 0});
    done = next;
  };
  for (const Stretch& stretch : stretches(list, period, [&](const Work& w) { return begins.contains(phase(w)); })) {
    const size_t second = stretch.begin + stretch.length, last = stretch.begin + (stretch.turns - 1) * stretch.length;
    add(second, 1, second);
    add(second + stretch.length, static_cast<uint32_t>(stretch.turns - 2), last);
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
    std::optional<int32_t> run;
    bool open = false;
    for (const Work& work : t.works) {
      const bool goes_on = open && (links(work.kind) || !run || work.microbatch / period == *run);
      if (!goes_on) parts.emplace_back();
      open = true;
      if (!links(work.kind)) run = work.microbatch / period;
      parts.back().works.push_back(work);
    }
  }
  return parts;
}

}  // namespace zrt::runtime
