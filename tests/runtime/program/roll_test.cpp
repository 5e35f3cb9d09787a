// Lists of works written short, and long again.
#include "runtime/program/roll.h"

#include <random>

#include "catch.h"

namespace zrt::roll_test {

using namespace zrt::runtime;

namespace {

size_t written(const std::vector<Turns>& parts) {
  size_t works = 0;
  for (const Turns& part : parts) works += part.works.size();
  return works;
}

}  // namespace

TEST_CASE("messages stay with the work in front of them where a list is cut into turns") {
  const Work f0{WorkKind::forward, 0, 0}, f1{WorkKind::forward, 0, 1}, f2{WorkKind::forward, 0, 2};
  const Work late{WorkKind::send_output, 0, 0}, early{WorkKind::receive_input, 0, 2};
  const Turns all{{early, f0, early, f1, late, early, f2, late}};
  const std::vector<Turns> parts = cut({&all, 1}, 2);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].works == std::vector<Work>{early, f0, early, f1, late, early});
  CHECK(parts[1].works == std::vector<Work>{f2, late});
}

TEST_CASE("a rolled list expands to itself, over thousands of random lists") {
  std::mt19937_64 random(1);
  const auto draw = [&](int32_t from, int32_t to) {
    return from + static_cast<int32_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  size_t repeated = 0;
  for (int number = 0; number < 5000; ++number) {
    const int32_t period = draw(1, 4);
    std::vector<Work> list;
    const auto noise = [&] {
      for (int32_t i = draw(0, 6); i > 0; --i) {
        list.push_back({static_cast<WorkKind>(draw(0, 2)), draw(0, 3), draw(0, 40)});
      }
    };
    noise();
    for (int32_t stretch = draw(0, 3); stretch > 0; --stretch) {
      std::vector<Work> turn;
      for (int32_t i = draw(1, 7); i > 0; --i) {
        turn.push_back({static_cast<WorkKind>(draw(0, 2)), draw(0, 3), draw(0, 9)});
      }
      for (int32_t times = draw(1, 9); times > 0; --times) {
        for (Work& work : turn) {
          list.push_back(work);
          work.microbatch += period;
        }
      }
      noise();
    }
    const auto parts = roll(list, period);
    INFO("list " << number << " of " << list.size() << " works, period " << period);
    REQUIRE(expand(parts) == list);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].repeat == 1) continue;
      ++repeated;
      // A turn like it stands before and behind.
      REQUIRE((i > 0 && i + 1 < parts.size()));
      REQUIRE((parts[i - 1].repeat == 1 && parts[i + 1].repeat == 1));
      REQUIRE(parts[i - 1].works.size() >= parts[i].works.size());
      REQUIRE(parts[i + 1].works.size() >= parts[i].works.size());
    }
  }
  CHECK(repeated > 1000);
}

TEST_CASE("a schedule is as long when it is rolled whatever the microbatches") {
  struct Case {
    Schedule schedule;
    int32_t period;
  };
  for (const Case& c : {Case{{ScheduleKind::gpipe, 4, 64, 1, 1}, 1},
                        {{ScheduleKind::gpipe, 4, 64, 1, 1}, 4},
                        {{ScheduleKind::one_f_one_b, 4, 64, 1, 1}, 1},
                        {{ScheduleKind::one_f_one_b, 4, 64, 1, 1}, 2},
                        {{ScheduleKind::zb_h1, 4, 64, 1, 1}, 1},
                        {{ScheduleKind::interleaved, 4, 64, 2, 4}, 4},
                        {{ScheduleKind::interleaved, 4, 96, 3, 8}, 8}}) {
    for (int32_t stage = 0; stage < 4; ++stage) {
      Schedule longer = c.schedule;
      longer.microbatches *= 4;
      INFO(schedule_name(c.schedule.kind) << " by " << c.period << ", stage " << stage);
      const auto list = order(longer, stage);
      const auto parts = roll(list, c.period);
      CHECK(expand(parts) == list);
      CHECK(written(parts) == written(roll(order(c.schedule, stage), c.period)));
      CHECK(written(parts) < 200);
    }
  }
}

TEST_CASE("what does not repeat stays as it is, and nothing is rolled to nothing") {
  CHECK(roll({}, 1).empty());
  const auto list = order({ScheduleKind::one_f_one_b, 4, 3, 1, 1}, 2);
  CHECK(roll(list, 1) == std::vector<Turns>{{list, 1, 0}});
}

TEST_CASE("cut parts expand to the same list, and one that is not repeated is of one turn") {
  for (const bool first_behind : {false, true}) {
    for (const int32_t together : {1, 2, 3}) {
      for (int32_t turns = 1; turns < 9; ++turns) {
        if (first_behind && together > 1) continue;
        const std::vector<Work> list = order(BlockOrder{3, turns * together, together, first_behind});
        const std::vector<Turns> parts = cut(roll(list, together), together);
        CAPTURE(first_behind, together, turns);
        CHECK(expand(parts) == list);
        // The parts are the first, repeated and last: as many however many turns there are.
        CHECK(parts.size() <= (first_behind ? 6u : 3u));
        for (const Turns& part : parts) {
          for (const Work& work : part.works) {
            CHECK(work.microbatch / together == part.works.front().microbatch / together);
          }
        }
      }
    }
  }
}

}  // namespace zrt::roll_test
