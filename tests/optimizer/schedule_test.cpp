#include "optimizer/schedule.h"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "tests/data_folder.h"

namespace zrt::optimizer::schedule_test {
namespace {

Schedule make(ScheduleType type, WarmupType warmup, int64_t steps, int64_t total) {
  Schedule s;
  s.type = type;
  s.warmup_type = warmup;
  s.lr = 8e-4;
  s.warmup_min_lr = 1e-4;
  s.warmup_max_lr = 9e-4;
  s.warmup_num_steps = steps;
  s.total_num_steps = total;
  return s;
}

TEST_CASE("a constant schedule uses the optimizer's rate at every step") {
  const Schedule s = make(ScheduleType::constant, WarmupType::log, 10, 100);
  CHECK(s.rate(0) == 8e-4);
  CHECK(s.rate(1000000) == 8e-4);
}

TEST_CASE("a linear warm-up starts with the minimum twice: at construction and at the law's first step") {
  const Schedule s = make(ScheduleType::warmup, WarmupType::linear, 4, 0);
  CHECK(s.rate(0) == 1e-4);
  CHECK(s.rate(1) == 1e-4);
  CHECK(s.rate(2) == Approx(3e-4).epsilon(1e-14));
  CHECK(s.rate(3) == Approx(5e-4).epsilon(1e-14));
  CHECK(s.rate(4) == Approx(7e-4).epsilon(1e-14));
  CHECK(s.rate(5) == Approx(9e-4).epsilon(1e-14));
  CHECK(s.rate(500) == Approx(9e-4).epsilon(1e-14));
}

TEST_CASE("a logarithmic warm-up follows ln(t + 1) / ln(W)") {
  const Schedule s = make(ScheduleType::warmup, WarmupType::log, 8, 0);
  CHECK(s.rate(0) == 1e-4);
  CHECK(s.rate(1) == 1e-4);
  CHECK(s.rate(2) == Approx(1e-4 + 8e-4 / 3).epsilon(1e-14));      // ln 2 / ln 8
  CHECK(s.rate(4) == Approx(1e-4 + 8e-4 * 2 / 3).epsilon(1e-14));  // ln 4 / ln 8
  CHECK(s.rate(8) == Approx(9e-4).epsilon(1e-14));                 // ln 8 / ln 8, one step before the end
  CHECK(s.rate(9) == Approx(9e-4).epsilon(1e-14));
}

TEST_CASE("fewer than two warm-up steps count as two") {
  const Schedule one = make(ScheduleType::warmup, WarmupType::linear, 1, 0);
  CHECK(one.rate(1) == 1e-4);
  CHECK(one.rate(2) == Approx(5e-4).epsilon(1e-14));
  CHECK(one.rate(3) == Approx(9e-4).epsilon(1e-14));
  const Schedule none = make(ScheduleType::warmup, WarmupType::log, 0, 0);
  CHECK(none.rate(2) == Approx(9e-4).epsilon(1e-14));  // ln 2 / ln 2
}

TEST_CASE("a decay falls linearly to the minimum at the last step and stays there") {
  const Schedule s = make(ScheduleType::warmup_decay, WarmupType::linear, 4, 12);
  CHECK(s.rate(0) == 1e-4);
  CHECK(s.rate(3) == Approx(5e-4).epsilon(1e-14));
  CHECK(s.rate(5) == Approx(9e-4).epsilon(1e-14));   // t = 4: (12 - 4) / 8
  CHECK(s.rate(9) == Approx(5e-4).epsilon(1e-14));   // t = 8: 4 / 8
  CHECK(s.rate(12) == Approx(2e-4).epsilon(1e-14));  // t = 11: 1 / 8
  CHECK(s.rate(13) == Approx(1e-4).epsilon(1e-14));
  CHECK(s.rate(100) == Approx(1e-4).epsilon(1e-14));
  const Schedule late = make(ScheduleType::warmup_decay, WarmupType::linear, 10, 5);  // total before the warm-up's end
  CHECK(late.rate(10) == Approx(1e-4 + 8e-4 * 0.9).epsilon(1e-14));
  CHECK(late.rate(11) == Approx(1e-4).epsilon(1e-14));
}

TEST_CASE("a cosine warms up by ratio of the optimizer's rate and falls to its floor") {
  Schedule s = make(ScheduleType::warmup_cosine, WarmupType::linear, 4, 12);
  s.warmup_min_ratio = 0.2;
  s.cos_min_ratio = 0.1;
  CHECK(s.rate(0) == 0);  // DeepSpeed's first rate is 0, whatever warmup_min_ratio says
  CHECK(s.rate(1) == Approx(8e-4 * 0.2).epsilon(1e-14));
  CHECK(s.rate(3) == Approx(8e-4 * 0.6).epsilon(1e-14));
  // t = 4: (1 + cos(π / 8)) / 2 of the way down
  CHECK(s.rate(5) == Approx(8e-4 * (0.1 + 0.9 * (1 + std::cos(3.14159265358979323846 / 8)) / 2)).epsilon(1e-14));
  CHECK(s.rate(8) == Approx(8e-4 * 0.55).epsilon(1e-14));  // t = 7: cos(π / 2)
  CHECK(s.rate(12) == Approx(8e-4 * 0.1).epsilon(1e-14));  // t = 11: cos(π)
  CHECK(s.rate(99) == Approx(8e-4 * 0.1).epsilon(1e-14));
  s.warmup_type = WarmupType::log;
  CHECK(s.rate(2) == Approx(8e-4 * (0.2 + 0.8 * 0.5)).epsilon(1e-14));  // ln 2 / ln 4
}

// Reads a schedule by the names of DeepSpeed's arguments; what is not given has its default, as there.
Schedule read(const nlohmann::json& golden) {
  const nlohmann::json& p = golden["params"];
  Schedule s;
  const std::string type = golden["type"];
  s.type = type == "OneCycle"        ? ScheduleType::one_cycle
           : type == "LRRangeTest"   ? ScheduleType::lr_range_test
           : type == "WarmupLR"      ? ScheduleType::warmup
           : type == "WarmupDecayLR" ? ScheduleType::warmup_decay
                                     : ScheduleType::warmup_cosine;
  s.lr = golden["lr"];
  s.warmup_type = p.value("warmup_type", "log") == "log" ? WarmupType::log : WarmupType::linear;
  s.warmup_min_lr = p.value("warmup_min_lr", 0.0);
  s.warmup_max_lr = p.value("warmup_max_lr", s.lr);
  s.warmup_min_ratio = p.value("warmup_min_ratio", 0.0);
  s.cos_min_ratio = p.value("cos_min_ratio", 1e-4);
  s.warmup_num_steps = p.value("warmup_num_steps", 1000);
  s.total_num_steps = p.value("total_num_steps", 0);
  OneCycle& c = s.one_cycle;
  c.min_lr = p.value("cycle_min_lr", 0.0), c.max_lr = p.value("cycle_max_lr", 0.0);
  c.decay_lr_rate = p.value("decay_lr_rate", 0.0);
  c.first_step_size = p.value("cycle_first_step_size", 2000);
  c.second_step_size = p.value("cycle_second_step_size", c.first_step_size);
  c.first_stair_count = p.value("cycle_first_stair_count", 0);
  const auto down = p.find("cycle_second_stair_count");
  c.second_stair_count = down == p.end() || down->is_null() ? c.first_stair_count : down->get<int64_t>();
  c.decay_step_size = p.value("decay_step_size", 0);
  c.momentum = p.value("cycle_momentum", true);
  c.min_mom = p.value("cycle_min_mom", 0.8), c.max_mom = p.value("cycle_max_mom", 0.9);
  c.decay_mom_rate = p.value("decay_mom_rate", 0.0);
  s.range_test.min_lr = p.value("lr_range_test_min_lr", 1e-3);
  s.range_test.step_size = p.value("lr_range_test_step_size", 2000);
  s.range_test.step_rate = p.value("lr_range_test_step_rate", 1.0);
  s.range_test.staircase = p.value("lr_range_test_staircase", false);
  return s;
}

TEST_CASE("every schedule is step by step what DeepSpeed's own sets, momentum too") {
  std::ifstream file(zrt::test::data_folder() + "/schedule_goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  std::map<std::string, int> seen;
  for (const nlohmann::json& golden : goldens["cases"]) {
    INFO(golden["type"] << " " << golden["params"]);
    ++seen[golden["type"]];
    const Schedule schedule = read(golden);
    for (size_t step = 0; step < golden["values"].size(); ++step) {
      const nlohmann::json& value = golden["values"][step];
      const Rates rates = schedule.rates(static_cast<int64_t>(step));
      CAPTURE(step);
      CHECK(rates.lr == Approx(value[0].get<double>()).epsilon(1e-13).margin(1e-18));
      CHECK(rates.betas == (schedule.type == ScheduleType::one_cycle && schedule.one_cycle.momentum));
      if (!rates.betas) continue;
      CHECK(rates.beta1 == Approx(value[1].get<double>()).epsilon(1e-13));
      CHECK(rates.beta2 == value[2].get<double>());
    }
  }
  CHECK(seen.size() == 5);
  CHECK(seen["OneCycle"] >= 12);
}

TEST_CASE("a half of a cycle rises in as many stairs as its key says") {
  Schedule s;
  s.type = ScheduleType::one_cycle;
  s.one_cycle.min_lr = 0.001, s.one_cycle.max_lr = 0.01;
  s.one_cycle.first_step_size = s.one_cycle.second_step_size = 8;
  s.one_cycle.first_stair_count = s.one_cycle.second_stair_count = 4;
  const double stairs[] = {0.001, 0.001, 0.00325, 0.00325, 0.0055, 0.0055, 0.00775, 0.00775, 0.01};
  for (int64_t taken = 0; taken <= 8; ++taken) CHECK(s.rate(taken) == Approx(stairs[taken]).epsilon(1e-14));
}

}  // namespace
}  // namespace zrt::optimizer::schedule_test
