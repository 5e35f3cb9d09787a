// A plan's text of many stages: which of them it shows, and what --stage asks for.
#include "runtime/plan/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "catch.h"
#include "core/error.h"
#include "core/format_count.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::stage_table_test {

using namespace zrt;
using namespace zrt::runtime;
using testing::planned;

namespace {

struct Told {
  std::vector<int> rows;     // stages in the table
  std::vector<int> in_full;  // stages that are told behind it
};

Told told_in(const std::string& text) {
  Told told;
  std::stringstream lines(text);
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (line.compare(first == std::string::npos ? 0 : first, 6, "stage ") == 0) {
      in_table = line.find("parameters") != std::string::npos;
      if (!in_table) told.in_full.push_back(std::stoi(line.substr(6)));
    } else if (in_table && line.find("B  ") != std::string::npos) {
      told.rows.push_back(std::stoi(line));
    }
  }
  return told;
}

std::vector<int> sorted(const std::set<size_t>& stages) {
  return {stages.begin(), stages.end()};
}

}  // namespace

TEST_CASE(
    "A plan of many stages shows the first, the last, the fullest and the slowest, and tells the fullest in full") {
  // Four layers make the second stage the fullest and the slowest; with many words the first and the last are.
  for (const bool large_head : {false, true}) {
    const auto p =
        planned({"parallel.pipeline=12", "model.layers=14", "model.tied=false",
                 "parallel.partition=[2,4,1,1,1,1,1,1,1,1,1,1]", large_head ? "model.vocab=65536" : "model.vocab=512"},
                12, find_cluster("dgx-a100"));
    const std::string text = plan_text(p->plan);
    INFO(text);
    const size_t fullest = fullest_stage(p->plan), slowest = slowest_stage(p->plan);
    CHECK(fullest == (large_head ? 0 : 1));
    CHECK(slowest == (large_head ? 11 : 1));
    for (const StagePlan& stage : p->plan.stages) {
      CHECK(stage.compiled.plan.device().peak_bytes <= p->plan.stages[fullest].compiled.plan.device().peak_bytes);
      CHECK(stage.step->busy_seconds.front() <= p->plan.stages[slowest].step->busy_seconds.front());
    }
    const std::vector<int> notable = sorted({0, 11, fullest, slowest});
    CHECK(told_in(text).rows == notable);
    CHECK(told_in(text).in_full == std::vector<int>{static_cast<int>(fullest)});
    CHECK(text.find(fmt::format("and {} stages between these; --stage all has them\n", 12 - notable.size())) !=
          std::string::npos);

    const Told all = told_in(plan_text(p->plan, stages_shown("all", 12)));
    CHECK(all.rows.size() == 12);
    CHECK(all.in_full == all.rows);
    const Told third = told_in(plan_text(p->plan, stages_shown("3", 12)));
    CHECK(third.rows == notable);
    CHECK(third.in_full == std::vector<int>{3});
  }
}

TEST_CASE("A plan of few stages has a row for each") {
  const auto p = planned({"parallel.pipeline=4"}, 4);
  CHECK(told_in(plan_text(p->plan)).rows == std::vector<int>{0, 1, 2, 3});
  CHECK(told_in(plan_text(p->plan)).in_full.size() == 1);
}

TEST_CASE("A stage that a pipeline lacks is refused with those that it has") {
  for (const char* wrong : {"4", "-1", "", "x", "1x", "all ", "99999999999"}) {
    try {
      stages_shown(wrong, 4);
      FAIL("'" << wrong << "' is taken");
    } catch (const core::UsageError& error) {
      CHECK(error.what() == fmt::format("--stage is '{}'; legal is all, or a stage of the pipeline: 0 to 3", wrong));
    }
  }
  CHECK(stages_shown("3", 4).stage == 3);
  CHECK(stages_shown("all", 4).all);
}

TEST_CASE("Counts have three digits and the unit that leaves one to three of them before the point") {
  for (const auto& [count, text] : {std::pair<int64_t, const char*>{0, "0"},
                                    {999, "999"},
                                    {1000, "1.00K"},
                                    {9'994, "9.99K"},
                                    {9'995, "10.0K"},
                                    {99'949, "99.9K"},
                                    {99'951, "100K"},
                                    {999'499, "999K"},
                                    {999'500, "1.00M"},
                                    {7'518'312'448, "7.52B"},
                                    {1'008'038'707'200, "1.01T"},
                                    {2'500'000'000'000'000, "2500T"}}) {
    CHECK(core::format_count(count) == text);
  }
}

}  // namespace zrt::stage_table_test
