// A run's page and line tell the loads of its experts.
#include "catch.h"
#include "runtime/report/expert_loads.h"
#include "runtime/report/run_data.h"
#include "tests/runtime/report/run_files.h"

namespace zrt::report_loads_test {

using namespace zrt;
using namespace zrt::runtime::report;
using namespace zrt::run_files;

TEST_CASE("Loads of experts over the last logged steps are a map of layers by experts, a table and a line") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 9));
  CHECK_FALSE(has(run.page(), "Load of each expert"));
  CHECK(loads_line(read_run(run.path)).empty());
  const auto line = [](int64_t step, const std::string& picked, const std::string& dropped) {
    return R"({"step":)" + std::to_string(step) + R"(,"layers":[1,3],"picked":)" + picked + R"(,"dropped":)" + dropped +
           "}\n";
  };
  // Steps of other experts and of other layers; one that counts; two that are no loads; and one that was done twice, of
  // which the last counts.
  run.write("expert_loads.jsonl",
            line(2, "[[9,9,9],[9,9,9]]", "[[0,0,0],[0,0,0]]") +
                R"({"step":3,"layers":[0,3],"picked":[[1,1,1,1],[1,1,1,1]],)" + R"("dropped":[[0,0,0,0],[0,0,0,0]]})" +
                "\n" + line(4, "[[5,5,0,10],[5,5,5,5]]", "[[1,0,0,0],[0,0,0,0]]") +
                line(5, "[[5,5,0,-10],[5,5,5,5]]", "[[0,0,0,0],[0,0,0,0]]") + line(5, "[[5,5,0,10]]", "[[0,0,0,0]]") +
                line(6, "[[1,1,1,1],[1,1,1,1]]", "[[0,0,0,0],[0,0,0,0]]") +
                line(6, "[[5,5,2,8],[0,0,20,0]]", "[[0,0,0,3],[0,0,15,0]]"));
  const ExpertLoads loads = sum_loads(read_run(run.path));
  CHECK(loads.first == 4);
  CHECK(loads.last == 6);
  CHECK(loads.steps == 2);
  REQUIRE(loads.layers.size() == 2);
  CHECK(loads.layers[0].layer == 1);
  CHECK(loads.layers[1].layer == 3);
  CHECK(loads.layers[0].shares == std::vector<double>{1, 1, 0.2, 1.8});
  CHECK(loads.layers[1].shares == std::vector<double>{0.5, 0.5, 2.5, 0.5});
  CHECK(loads.layers[0].dropped == 0.1);
  CHECK(loads.layers[1].dropped == 0.375);
  CHECK(sum_loads(read_run(run.path), 1).first == 6);
  const std::string page = run.page();
  CHECK(has(page, "<h2>Load of each expert (1: even) in 2 logged steps, 4 to 6</h2>"));
  CHECK(count(page, "<svg class=\"heat\"") == 1);
  CHECK(count(page, "</title></rect>") == 8);
  CHECK(has(page, "fill=\"#f7f7f7\"><title>layer 1, expert 0: 1</title>"));
  CHECK(has(page, "fill=\"#b2182b\"><title>layer 3, expert 2: 2.5</title>"));
  CHECK(has(page, "0.2 (expert 2)"));
  CHECK(has(page, "1.8 (expert 3)"));
  CHECK(has(page, "37.5 %"));
  CHECK(loads_line(read_run(run.path)) ==
        "experts over steps 4 to 6: between 0.2 (layer 1, expert 2) and 2.5 (layer 3, expert 2) of an even load");
}

}  // namespace zrt::report_loads_test
