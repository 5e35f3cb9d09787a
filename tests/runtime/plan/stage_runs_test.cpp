// The search for placements over the stages of a pipeline: which stages are searched, and which take over an outcome.
#include "runtime/plan/stage_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::stage_runs_test {

using namespace zrt;
using namespace zrt::runtime;

namespace {

std::vector<Layout> stages_of(int stages, const std::vector<std::string>& sets = {}) {
  std::vector<std::string> all{fmt::format("parallel.pipeline={}", stages), fmt::format("model.layers={}", stages - 2),
                               "model.tied=false", "memory.placement=auto", "parallel.partition=uniform"};
  all.insert(all.end(), sets.begin(), sets.end());
  const Config config = parse_config(testing::plan_base, "plan.json", all, stages);
  return make_layouts(config, config.model.make());
}

int number(const Layout& layout) {
  return layout.stage.index;
}

// A search whose outcome changes behind some stages, and which notes the stages that it looks at.
struct Searched {
  std::vector<int> steps;        // an outcome is how many of these a stage is not behind
  std::vector<int> too_small{};  // stages that another one's outcome does not fit
  std::vector<int> seen{};

  int64_t outcome(int stage) const {
    return std::count_if(steps.begin(), steps.end(), [&](int step) { return stage <= step; });
  }
  void run(std::vector<Layout>& layouts) {
    settle_stages(layouts, {[&](Layout& layout) {
                              seen.push_back(number(layout));
                              layout.prefetch = outcome(number(layout));
                            },
                            [&](const Layout& layout) {
                              return std::find(too_small.begin(), too_small.end(), number(layout)) == too_small.end();
                            }});
  }
};

}  // namespace

TEST_CASE("Stages between two that end alike take over their outcome, and each has that of a search of its own") {
  const std::vector<int> no_steps;
  for (const std::vector<int>& steps : {no_steps, std::vector{5}, {5, 6}, {1, 20, 28}, {15, 16, 17, 18}}) {
    std::vector<Layout> layouts = stages_of(32);
    Searched search{steps};
    search.run(layouts);
    CAPTURE(steps);
    REQUIRE(layouts.size() == 32);
    for (int s = 0; s < 32; ++s) CHECK(layouts[static_cast<size_t>(s)].prefetch == search.outcome(s));
    // The first and the last are runs by themselves; of the others both ends and halves around each change.
    CHECK(search.seen.size() <= 4 + 6 * steps.size());
    std::sort(search.seen.begin(), search.seen.end());
    CHECK(std::adjacent_find(search.seen.begin(), search.seen.end()) == search.seen.end());
  }
}

TEST_CASE("A stage that the outcome of its neighbours does not fit is searched by itself") {
  std::vector<Layout> layouts = stages_of(16);
  Searched search{{}, {4, 9}};
  search.run(layouts);
  for (const int stage : {0, 1, 4, 9, 14, 15}) {
    CAPTURE(stage);
    CHECK(std::find(search.seen.begin(), search.seen.end(), stage) != search.seen.end());
  }
  CHECK(search.seen.size() == 6);
}

TEST_CASE("Stages of other blocks are searched by themselves, and those of a run in which nothing fits take it over") {
  std::vector<Layout> uneven = stages_of(4, {"model.layers=7", "parallel.partition=[2,4,1,2]"});
  Searched each{{}};
  each.run(uneven);
  CHECK(each.seen == std::vector<int>{0, 1, 2, 3});
  std::vector<Layout> layouts = stages_of(16);
  Searched none{{}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
  none.run(layouts);
  CHECK(none.seen.size() == 4);
}

TEST_CASE("What a user settles for layers of one stage stays, whatever its neighbours do") {
  const auto p = testing::planned({"parallel.pipeline=8", "model.layers=14", "model.tied=false",
                                   "parallel.partition=uniform", "memory.placement=auto", "memory.recompute=[6]"},
                                  8, find_cluster("dgx-a100"));
  size_t again = 0;
  for (const StagePlan& stage : p->plan.stages) {
    const Layout& layout = stage.compiled.layout;
    for (size_t b = 0; b < layout.model->blocks.size(); ++b) {
      if (layout.placement.keeps(b) == Recompute::none) continue;
      ++again;
      CHECK(layout.model->whole_number(b) == 7);  // behind the embedding
    }
  }
  CHECK(again == 1);
}

}  // namespace zrt::stage_runs_test
