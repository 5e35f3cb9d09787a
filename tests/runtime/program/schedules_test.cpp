// Orders of pipeline schedules against data/schedules.json, and what follows from them: nobody waits for ever, times
// and live microbatches are the published ones.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "catch.h"
#include "core/error.h"
#include "runtime/program/order.h"
#include "tests/runtime/schedule_goldens.h"

namespace zrt::schedules_test {

using namespace zrt::runtime;
using nlohmann::json;

namespace {

Schedule schedule_of(const json& golden, ScheduleKind kind) {
  return {kind, golden["p"], golden["m"], golden.value("v", 1), golden.value("G", 1)};
}

ScheduleKind kind_of(const std::string& name) {
  for (const auto kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    if (schedule_name(kind) == name) return kind;
  }
  FAIL("no schedule is called " << name);
  return {};
}

const char* letter_of(WorkKind kind) {
  return kind == WorkKind::forward ? "F" : kind == WorkKind::backward ? "B" : "W";
}

// Writes a list as the goldens are written: "F0 F1 B0", with chunks "F0.1".
std::string text_of(const std::vector<Work>& list, bool chunks) {
  std::vector<std::string> words;
  for (const Work& work : list) {
    const char* letter = letter_of(work.kind);
    words.push_back(chunks ? fmt::format("{}{}.{}", letter, work.microbatch, work.chunk)
                           : fmt::format("{}{}", letter, work.microbatch));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::vector<Work>> orders(const Schedule& schedule) {
  std::vector<std::vector<Work>> lists;
  lists.reserve(static_cast<size_t>(schedule.stages));
  for (int32_t stage = 0; stage < schedule.stages; ++stage) lists.push_back(order(schedule, stage));
  return lists;
}

// When each work of each stage begins, if a work takes what `costs` says and messages take nothing; fails where all
// wait.
std::vector<std::vector<int64_t>> start_times(const Schedule& s, const json& costs) {
  const auto lists = orders(s);
  const int32_t last = s.stages * s.chunks - 1;
  using Key = std::tuple<WorkKind, int32_t, int32_t>;  // of the model's chunk and the microbatch
  std::map<Key, int64_t> ended;
  std::vector<std::vector<int64_t>> starts(lists.size());
  std::vector<int64_t> now(lists.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      while (starts[stage].size() < lists[stage].size()) {
        const Work& work = lists[stage][starts[stage].size()];
        const int32_t chunk = work.chunk * s.stages + static_cast<int32_t>(stage);
        std::vector<Key> needs;
        if (work.kind == WorkKind::forward && chunk > 0) {
          needs = {{WorkKind::forward, chunk - 1, work.microbatch}};
        } else if (work.kind == WorkKind::backward) {
          needs = {{WorkKind::forward, chunk, work.microbatch}};
          if (chunk < last) needs.push_back({WorkKind::backward, chunk + 1, work.microbatch});
        } else if (work.kind == WorkKind::weight_gradient) {
          needs = {{WorkKind::backward, chunk, work.microbatch}};
        }
        if (!std::all_of(needs.begin(), needs.end(), [&](const Key& key) { return ended.count(key) > 0; })) break;
        for (const Key& key : needs) now[stage] = std::max(now[stage], ended[key]);
        starts[stage].push_back(now[stage]);
        now[stage] += costs[letter_of(work.kind)].get<int64_t>();
        ended[{work.kind, chunk, work.microbatch}] = now[stage];
        progress = true;
      }
    }
  }
  for (size_t stage = 0; stage < lists.size(); ++stage) REQUIRE(starts[stage].size() == lists[stage].size());
  return starts;
}

int64_t makespan(const Schedule& s, const json& costs) {
  const auto lists = orders(s);
  const auto starts = start_times(s, costs);
  int64_t end = 0;
  for (size_t stage = 0; stage < lists.size(); ++stage) {
    end = std::max(end, starts[stage].back() + costs[letter_of(lists[stage].back().kind)].get<int64_t>());
  }
  return end;
}

// Returns for each stage how many forwards wait for their `until` at most.
std::vector<int> peaks(const Schedule& s, WorkKind until) {
  std::vector<int> all;
  for (const auto& list : orders(s)) {
    int live = 0, most = 0;
    for (const Work& work : list) {
      live += (work.kind == WorkKind::forward) - (work.kind == until);
      most = std::max(most, live);
    }
    all.push_back(most);
  }
  return all;
}

std::vector<int> warm_ups(const Schedule& s) {
  std::vector<int> all;
  for (const auto& list : orders(s)) {
    const auto first =
        std::find_if(list.begin(), list.end(), [](const Work& w) { return w.kind != WorkKind::forward; });
    all.push_back(static_cast<int>(first - list.begin()) - (s.kind == ScheduleKind::gpipe ? 0 : 1));
  }
  return all;
}

}  // namespace

TEST_CASE("every stage works in the published order, element by element, and at the published times") {
  for (const json& golden : zrt::testing::schedule_goldens()["op_orders"]["lists"]) {
    const ScheduleKind kind = kind_of(golden["schedule"]);
    const Schedule s = schedule_of(golden, kind);
    const auto stage = golden["rank"].get<int32_t>();
    INFO(golden["schedule"] << ", " << s.stages << " stages, " << s.microbatches << " microbatches, stage " << stage);
    CHECK_NOTHROW(check_schedule(s));
    CHECK(text_of(order(s, stage), kind == ScheduleKind::interleaved) == golden["ops"].get<std::string>());
    if (!golden.contains("start_times")) continue;
    const json costs = kind == ScheduleKind::zb_h1 ? json{{"F", 1}, {"B", 1}, {"W", 1}} : json{{"F", 1}, {"B", 2}};
    CHECK(start_times(s, costs)[static_cast<size_t>(stage)] == golden["start_times"].get<std::vector<int64_t>>());
  }
}

TEST_CASE("the length of a step, warm-ups and live microbatches are the published ones") {
  size_t cases = 0;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    for (const json& golden : zrt::testing::schedule_goldens()[name]) {
      const Schedule s = schedule_of(golden, kind_of(name));
      INFO(name << " " << golden.dump());
      CHECK(makespan(s, golden["op_time"]) == golden["makespan"]);
      if (golden.contains("peak_live_microbatches"))
        CHECK(peaks(s, WorkKind::backward) == golden["peak_live_microbatches"].get<std::vector<int>>());
      if (golden.contains("peak_live_chunks"))
        CHECK(peaks(s, WorkKind::backward) == golden["peak_live_chunks"].get<std::vector<int>>());
      if (golden.contains("peak_live_until_B"))
        CHECK(peaks(s, WorkKind::backward) == golden["peak_live_until_B"].get<std::vector<int>>());
      if (golden.contains("peak_live_until_W"))
        CHECK(peaks(s, WorkKind::weight_gradient) == golden["peak_live_until_W"].get<std::vector<int>>());
      ++cases;
    }
  }
  for (const json& golden : zrt::testing::schedule_goldens()["zb-h1_uneven_costs"]["cases"]) {
    INFO(golden.dump());
    CHECK(makespan(schedule_of(golden, ScheduleKind::zb_h1), golden["op_time"]) == golden["makespan"]);
  }
  CHECK(cases > 50);
}

TEST_CASE("warm-ups have the published lengths") {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    for (const json& golden : zrt::testing::schedule_goldens()[name]) {
      const Schedule s = schedule_of(golden, kind_of(name));
      INFO(name << " " << golden.dump());
      // The last forward is no part of a pair where forwards run out before the first backward.
      auto expected = golden["warmup_forwards"].get<std::vector<int>>();
      const auto found = warm_ups(s);
      REQUIRE(found.size() == expected.size());
      for (size_t stage = 0; stage < found.size(); ++stage) {
        const int most = s.microbatches * s.chunks;
        CHECK((found[stage] == expected[stage] || (expected[stage] == most && found[stage] == most - 1)));
      }
    }
  }
}

TEST_CASE("microbatches go through chunks in groups, the backwards from the last chunk to the first") {
  for (const json& golden : zrt::testing::schedule_goldens()["interleaved_tables"]) {
    const Schedule s{ScheduleKind::interleaved, 1, golden["m"], golden["v"], golden["G"]};
    INFO(golden.dump());
    std::vector<int32_t> microbatches, forward, backward;
    for (const Work& work : order(s, 0)) {
      (work.kind == WorkKind::forward ? forward : backward).push_back(work.chunk);
      if (work.kind == WorkKind::forward) microbatches.push_back(work.microbatch);
    }
    CHECK(microbatches == golden["microbatch"].get<std::vector<int32_t>>());
    CHECK(forward == golden["forward_chunk"].get<std::vector<int32_t>>());
    CHECK(backward == golden["backward_chunk"].get<std::vector<int32_t>>());
  }
}

TEST_CASE("groups that would make a stage wait are refused with their numbers") {
  size_t refused = 0;
  for (const json& golden : zrt::testing::schedule_goldens()["interleaved_validity"]["cases"]) {
    const Schedule s = schedule_of(golden, ScheduleKind::interleaved);
    INFO(golden.dump());
    if (golden["valid"].get<bool>()) {
      CHECK_NOTHROW(check_schedule(s));
      continue;
    }
    ++refused;
    try {
      check_schedule(s);
      FAIL_CHECK("it was not refused");
    } catch (const core::ConfigError& error) {
      const std::string text = error.what();
      for (const int32_t number : {s.stages, s.microbatches, s.group}) {
        CHECK(text.find(std::to_string(number)) != std::string::npos);
      }
    }
  }
  CHECK(refused == 7);
  CHECK_THROWS_AS(check_schedule({ScheduleKind::one_f_one_b, 2, 4, 2, 1}), core::ConfigError);
  CHECK_THROWS_AS(check_schedule({ScheduleKind::gpipe, 0, 4, 1, 1}), core::ConfigError);
  CHECK_THROWS_AS(check_schedule({ScheduleKind::zb_h1, 2, 0, 1, 1}), core::ConfigError);
}

TEST_CASE("each work stands once in the list of its stage, whatever the schedule") {
  for (int32_t stages = 1; stages <= 5; ++stages) {
    for (int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
      for (const auto kind :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
        for (int32_t chunks = 1; chunks <= (kind == ScheduleKind::interleaved ? 3 : 1); ++chunks) {
          const Schedule s{kind, stages, microbatches, chunks, stages};
          if (kind == ScheduleKind::interleaved && (microbatches < stages || microbatches % stages != 0)) continue;
          INFO(schedule_name(kind) << " " << stages << " " << microbatches << " " << chunks);
          start_times(s, {{"F", 3}, {"B", 2}, {"W", 1}});
          for (auto list : orders(s)) {
            const size_t kinds = kind == ScheduleKind::zb_h1 ? 3 : 2;
            CHECK(list.size() == kinds * static_cast<size_t>(microbatches * chunks));
            const auto key = [](const Work& w) { return std::tuple(w.kind, w.chunk, w.microbatch); };
            std::sort(list.begin(), list.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
            CHECK(std::adjacent_find(list.begin(), list.end()) == list.end());
          }
        }
      }
    }
  }
}

TEST_CASE("without a pipeline microbatches go one by one, side by side, or with the first block's backwards behind") {
  const auto text = [](const BlockOrder& blocks) {
    std::string ops;
    for (const Work& work : order(blocks)) {
      const char kind = work.kind == WorkKind::load ? 'L' : work.kind == WorkKind::forward ? 'F' : 'B';
      ops += fmt::format("{}{}.{} ", kind, work.chunk, work.microbatch);
    }
    return ops;
  };
  CHECK(text({2, 2, 1, false}) == "L0.0 F0.0 F1.0 B1.0 B0.0 L0.1 F0.1 F1.1 B1.1 B0.1 ");
  CHECK(text({2, 2, 2, false}) == "L0.0 L0.1 F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1 ");
  CHECK(text({2, 2, 1, true}) == "L0.0 F0.0 F1.0 B1.0 L0.1 F0.1 F1.1 B1.1 B0.0 B0.1 ");
}

}  // namespace zrt::schedules_test
