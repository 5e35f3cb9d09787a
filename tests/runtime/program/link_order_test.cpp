// The order in which the stages of a pipeline hand on what they make: none can wait for another that waits for it.
#include "runtime/program/link_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "catch.h"
#include "runtime/program/roll.h"

namespace zrt::link_order_test {

using namespace zrt;
using namespace zrt::runtime;

namespace {

// Every legal schedule of 2 to 8 stages and up to 24 microbatches.
void for_each_schedule(const std::function<void(const Schedule&)>& visit) {
  for (int32_t stages = 2; stages <= 8; ++stages) {
    for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
        visit({kind, stages, microbatches, 1, 1});
      }
      for (int32_t group = stages; group <= std::min(2 * stages + 2, microbatches); ++group) {
        if (const int32_t rest = microbatches % group; rest != 0 && rest < stages) continue;
        for (int32_t chunks = 2; chunks <= 3; ++chunks) {
          visit({ScheduleKind::interleaved, stages, microbatches, chunks, group});
        }
      }
    }
  }
}

std::string text_of(const Schedule& s) {
  return fmt::format("{}, {} stages, {} microbatches, {} chunks in groups of {}", schedule_name(s.kind), s.stages,
                     s.microbatches, s.chunks, s.group);
}

std::vector<std::vector<Work>> linked(const Schedule& s) {
  std::vector<std::vector<Work>> lists;
  lists.reserve(static_cast<size_t>(s.stages));
  for (int32_t stage = 0; stage < s.stages; ++stage) lists.push_back(link_order(s, stage));
  return lists;
}

bool sends(WorkKind kind) {
  return kind == WorkKind::send_output || kind == WorkKind::send_gradient;
}
bool forward(WorkKind kind) {
  return kind == WorkKind::receive_input || kind == WorkKind::send_output;
}

// Works until every stage has come to its end, one after the other on each, a message on both of its stages at once;
// the works that are left where none can go on.
size_t left_over(const Schedule& s, const std::vector<std::vector<Work>>& lists) {
  std::vector<size_t> at(lists.size());
  const auto chunk = [&](size_t stage) {
    return lists[stage][at[stage]].chunk * s.stages + static_cast<int32_t>(stage);
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      while (at[stage] < lists[stage].size()) {
        const Work& work = lists[stage][at[stage]];
        if (links(work.kind)) {
          const int32_t other = chunk(stage) + (sends(work.kind) == forward(work.kind) ? 1 : -1);
          const auto peer = static_cast<size_t>(other % s.stages);
          if (at[peer] == lists[peer].size()) break;
          const Work& theirs = lists[peer][at[peer]];
          if (!links(theirs.kind) || sends(theirs.kind) == sends(work.kind) || chunk(peer) != other ||
              forward(theirs.kind) != forward(work.kind) || theirs.microbatch != work.microbatch) {
            break;
          }
          ++at[peer];
        }
        ++at[stage];
        moved = true;
      }
    }
  }
  size_t left = 0;
  for (size_t stage = 0; stage < lists.size(); ++stage) left += lists[stage].size() - at[stage];
  return left;
}

// Returns the most microbatches of a chunk that lie between a work of one kind and one of another.
int most_between(const std::vector<Work>& list, int32_t chunk, WorkKind from, WorkKind to) {
  int alive = 0, most = 0;
  for (const Work& work : list) {
    if (work.chunk != chunk) continue;
    alive += (work.kind == from) - (work.kind == to);
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

TEST_CASE("stages that do one thing at a time, messages together, come to their ends in every schedule") {
  for_each_schedule([](const Schedule& s) {
    INFO(text_of(s));
    REQUIRE(left_over(s, linked(s)) == 0);
  });
}

TEST_CASE("a stage that receives a gradient behind the output that it sends next waits for ever") {
  const Schedule s{ScheduleKind::one_f_one_b, 2, 4, 1, 1};
  auto lists = linked(s);
  const auto found = std::find_if(lists[0].begin(), lists[0].end(),
                                  [](const Work& work) { return work.kind == WorkKind::receive_gradient; });
  const auto next = std::find_if(found, lists[0].end(), [](const Work& w) { return w.kind == WorkKind::send_output; });
  REQUIRE(next != lists[0].end());
  std::rotate(found, found + 1, next + 1);
  CHECK(left_over(s, lists) > 0);
}

TEST_CASE("without its messages a stage does the works of its schedule, and each message once") {
  for_each_schedule([](const Schedule& s) {
    INFO(text_of(s));
    for (int32_t stage = 0; stage < s.stages; ++stage) {
      std::vector<Work> list = link_order(s, stage);
      std::map<WorkKind, std::set<std::pair<int32_t, int32_t>>> messages;
      size_t count = 0;
      for (const Work& work : list) {
        if (!links(work.kind)) continue;
        messages[work.kind].insert({work.chunk, work.microbatch});
        ++count;
      }
      std::erase_if(list, [](const Work& work) { return links(work.kind); });
      REQUIRE(list == order(s, stage));
      const auto borders = [&](bool in_front) {
        const bool at_end = in_front ? stage == 0 : stage + 1 == s.stages;
        return static_cast<size_t>((s.chunks - (at_end ? 1 : 0)) * s.microbatches);
      };
      REQUIRE(messages[WorkKind::receive_input].size() == borders(true));
      REQUIRE(messages[WorkKind::send_gradient].size() == borders(true));
      REQUIRE(messages[WorkKind::send_output].size() == borders(false));
      REQUIRE(messages[WorkKind::receive_gradient].size() == borders(false));
      REQUIRE(count == 2 * (borders(true) + borders(false)));
    }
  });
}

TEST_CASE("what is made is sent behind it, and what is received comes before its use") {
  for_each_schedule([](const Schedule& s) {
    INFO(text_of(s));
    for (int32_t stage = 0; stage < s.stages; ++stage) {
      std::map<std::tuple<WorkKind, int32_t, int32_t>, size_t> at;
      const std::vector<Work> list = link_order(s, stage);
      for (size_t i = 0; i < list.size(); ++i) at[{list[i].kind, list[i].chunk, list[i].microbatch}] = i;
      for (const auto& [key, place] : at) {
        const auto& [kind, chunk, microbatch] = key;
        const auto work = at.at({forward(kind) ? WorkKind::forward : WorkKind::backward, chunk, microbatch});
        if (links(kind)) REQUIRE((sends(kind) ? work < place : place < work));
      }
    }
  });
}

TEST_CASE("messages need no more slots than are planned") {
  for_each_schedule([](const Schedule& s) {
    INFO(text_of(s));
    const int early = s.chunks > 1 ? s.group - s.stages : 0;
    for (int32_t stage = 0; stage < s.stages; ++stage) {
      const std::vector<Work> list = link_order(s, stage);
      for (int32_t chunk = 0; chunk < s.chunks; ++chunk) {
        INFO("stage " << stage << " chunk " << chunk);
        const auto most = [&](WorkKind from, WorkKind to) { return most_between(list, chunk, from, to); };
        const int alive = most(WorkKind::forward, WorkKind::backward);
        if (stage > 0 || chunk > 0) {
          REQUIRE(most(WorkKind::receive_input, WorkKind::backward) <=
                  std::min(alive + 1 + (stage == 0 ? early : 0), s.microbatches));
          REQUIRE(most(WorkKind::backward, WorkKind::send_gradient) <= static_cast<int>(handed_slots(s)));
        }
        if (stage + 1 < s.stages || chunk + 1 < s.chunks) {
          REQUIRE(most(WorkKind::forward, WorkKind::send_output) <= static_cast<int>(handed_slots(s)));
          REQUIRE(most(WorkKind::receive_gradient, WorkKind::backward) <=
                  static_cast<int>(returned_slots(s, stage, chunk)));
        }
      }
    }
  });
}

TEST_CASE("the chunks of a stage together need no more slots for what they receive than their pool has") {
  for_each_schedule([](const Schedule& s) {
    if (s.chunks == 1) return;
    INFO(text_of(s));
    for (int32_t stage = 0; stage < s.stages; ++stage) {
      const int32_t first = stage == 0 ? 1 : 0;  // the very first receives nothing
      const int spare = 1 + (stage == 0 ? s.group - s.stages : 0);
      int working = 0, held = 0, most_working = 0, most_held = 0, rings = 0;
      const std::vector<Work> list = link_order(s, stage);
      for (const Work& work : list) {
        if (work.chunk < first) continue;
        const int ends = work.kind == WorkKind::backward ? 1 : 0;
        most_working = std::max(most_working, working += (work.kind == WorkKind::forward) - ends);
        most_held = std::max(most_held, held += (work.kind == WorkKind::receive_input) - ends);
      }
      for (int32_t chunk = first; chunk < s.chunks; ++chunk) {
        rings += std::min(most_between(list, chunk, WorkKind::forward, WorkKind::backward) + spare, s.microbatches);
      }
      REQUIRE(most_held <= std::min(most_working + spare, rings));
    }
  });
}

TEST_CASE("a long step is written as briefly as one of a few microbatches") {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
    const auto written = [&](int32_t microbatches, int32_t stage) {
      Schedule s{kind, 4, microbatches, 1, 1};
      if (kind == ScheduleKind::interleaved) s.chunks = 2, s.group = 4;
      size_t works = 0;
      for (const Turns& turns : roll(link_order(s, stage), 4)) works += turns.works.size();
      return works;
    };
    for (int32_t stage = 0; stage < 4; ++stage) {
      INFO(schedule_name(kind) << ", stage " << stage);
      CHECK(written(512, stage) == written(64, stage));
    }
  }
}

}  // namespace zrt::link_order_test
