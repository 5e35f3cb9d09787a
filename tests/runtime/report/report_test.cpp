// Pages of runs in every state that their files can be in.
#include "runtime/report/report.h"

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "catch.h"
#include "core/error.h"
#include "core/philox.h"
#include "runtime/report/curve_line.h"
#include "runtime/report/decimate.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/run_data.h"
#include "tests/runtime/report/run_files.h"

namespace zrt::report_test {

using namespace zrt;
using namespace zrt::runtime::report;
using namespace zrt::run_files;

TEST_CASE("A folder that is no run is refused by name") {
  const Run run;
  CHECK_THROWS_WITH(report_page(run.path / "none"), Catch::Contains("none: is no folder"));
  CHECK_THROWS_WITH(run.page(), Catch::Contains("has no metrics.jsonl"));
  run.write("metrics.jsonl", "");
  CHECK(has(run.page(), "has not finished its first one"));
}

TEST_CASE("A run of which only steps are left is shown, with what is missing") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 20));
  const std::string page = run.page();
  for (const char* title : {"Training loss", "Throughput", "Time of a step", "Learning rate", "Gradient norm"}) {
    CHECK(has(page, std::string("<h2>") + title));
  }
  CHECK(count(page, "<svg class=\"chart\"") == 5);
  for (const char* absent : {"no config.resolved.json", "no memory.json", "no trace.json", "there is no heartbeat"}) {
    CHECK(has(page, absent));
  }
  CHECK_FALSE(has(page, "Held-out"));
}

TEST_CASE("The state of a run comes from its summary, or from its heartbeat") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 5));
  run.write("config.resolved.json", R"({"run": {"steps": {"value": 9, "from": "file"}}})");
  run.write("heartbeat", "");
  CHECK(has(run.page(), "running: 5 of 9 steps done"));
  std::filesystem::last_write_time(run.path / "heartbeat",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(3));
  CHECK(has(run.page(), "not ended by itself: 5 of 9 steps done, no sign of life for 3.0 h"));
  std::filesystem::last_write_time(run.path / "heartbeat",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(5));
  CHECK(has(run.page(), "its last sign of life lies 5.0 h ahead: a clock was set back"));
  run.write("summary.json", R"({"exit_reason": "stopped by a signal", "steps": 5})");
  CHECK(has(run.page(), "stopped by a signal after step 5 of 9"));
  // It was resumed and has written more since.
  run.write("metrics.jsonl", steps(1, 7));
  CHECK(has(run.page(), "not ended by itself: 7 of 9 steps done"));
}

TEST_CASE("Skipped steps and the failure that they ended in are told") {
  const Run run;
  const auto skipped = [](int64_t step) {
    std::string line = step_line(step, "null");
    return line.replace(line.find("\"tokens\""), 0, "\"skipped\":true,");
  };
  run.write("metrics.jsonl", steps(1, 4) + skipped(5));
  CHECK(has(run.page(), "1 step was skipped because loss or gradient were not finite, first step 5"));
  run.write("metrics.jsonl", steps(1, 4) + skipped(5) + skipped(6));
  CHECK(has(run.page(), "2 steps were skipped because loss or gradient were not finite, first step 5"));
  CHECK_FALSE(has(run.page(), "<td>failure</td>"));
  run.write("failure.json", R"({"step": 6, "kind": "skipped steps", "message": "step 6: too many & <none>"})");
  CHECK(has(run.page(), "step 6: too many &amp; &lt;none&gt;"));
}

TEST_CASE("A measured peak that differs is told above the table, whichever rank's it is") {
  const auto page = [](uint64_t first, uint64_t second) {
    const Run run;
    run.write("metrics.jsonl", steps(1, 2));
    const auto rank = [](int number, uint64_t measured) {
      return R"({"rank":)" + std::to_string(number) +
             R"(,"tiers":{"device":{"planned_peak_bytes":100,"measured_peak_bytes":)" + std::to_string(measured) +
             "}}}";
    };
    run.write("memory.json", R"({"ranks":[)" + rank(0, first) + "," + rank(1, second) + "]}");
    return run.page();
  };
  const std::string told = "A measured peak differs from the planned one";
  CHECK_FALSE(has(page(100, 100), told));
  CHECK(has(page(101, 100), told));
  CHECK(has(page(100, 99), told));
}

TEST_CASE("What GPUs hold outside of the arenas is told by process, before the run and for libraries") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 2));
  const auto memory = [&](const std::string& gpu) {
    run.write("memory.json",
              R"({"ranks":[{"rank":0,"tiers":{"device":{"planned_peak_bytes":1,"measured_peak_bytes":1}}}],
      "processes":[7, {"ranks":[0],"rss_peak_bytes":7,"outside_arena_bytes":2)" +
                  gpu + "}]}");
    return run.page();
  };
  const std::string head = "taken by libraries (kernels, NCCL), bytes";
  CHECK_FALSE(has(memory(""), head));
  CHECK_FALSE(has(memory(R"(,"gpu":null)"), head));
  const std::string page = memory(R"(,"gpu":{"arena_bytes":1011,"context_bytes":2022,"library_bytes":3033})");
  CHECK(has(page, head));
  for (const char* bytes : {">1011<", ">2022<", ">3033<"}) CHECK(has(page, bytes));
}

TEST_CASE("Losses that are no numbers leave a gap and a sentence") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 4) + step_line(5, "null") + step_line(6, "null") + steps(7, 9));
  const std::string page = run.page();
  CHECK(has(page, "The loss of 2 steps is not a number or infinite, first at step 5."));
  CHECK_FALSE(has(page, "nan,"));
  CHECK_FALSE(has(page, ",nan"));
  run.write("metrics.jsonl", step_line(1, "null"));
  CHECK(has(run.page(), "The loss of 1 step is not a number"));
  CHECK_FALSE(has(run.page(), "<h2>Training loss"));
}

TEST_CASE("Damaged lines are left out and counted, and the line being written is none of them") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 3) + "{\"step\": 4, \"los\n[1]\n\n" + R"({"loss": 3})" + "\n" + steps(5, 6) +
                                 R"({"step": 7, "loss": 1.)");
  const std::string page = run.page();
  CHECK(has(page, "metrics.jsonl: 3 lines are damaged and left out, the first of them line 4."));
  CHECK(has(page, "1 line(s) without a step"));
  CHECK(has(page, "1 step(s) are missing from metrics.jsonl, the first of them step 4."));
  CHECK(read_run(run.path).steps.size() == 5);
  for (const char* name : {"config.resolved.json", "memory.json", "summary.json"}) {
    run.write(name, "{\"cut");
    CHECK(has(run.page(), std::string(name) + " is damaged"));
    run.write(name, "[]");
    CHECK(has(run.page(), std::string(name) + " is damaged"));
  }
  // Values of other kinds than a run writes.
  run.write("memory.json", R"({"ranks": [3, {"rank": "x", "tiers": {"device": 5}}, {"tiers": []}], "processes": [1]})");
  run.write("summary.json", R"({"steps": "many", "exit_reason": {}, "tokens_per_second": "fast"})");
  run.write("config.resolved.json",
            R"({"run": 3, "model": {"preset": {"value": [1]}}, "zero_optimization": {"stage": 0}})");
  run.write("evaluations.jsonl", R"({"step": -1, "loss": "x"})"
                                 "\n"
                                 R"({"step": 3, "loss": "x"})"
                                 "\n");
  run.write("events.jsonl", R"({"event": 3, "step": "x", "reason": null})"
                            "\n");
  run.write("trace.json",
            trace_head + "{\"pid\":1e300,\"ph\":\"X\",\"cat\":\"program\",\"name\":\"step\",\"args\":[]},\n]}");
  CHECK(has(run.page(), "</html>"));
}

TEST_CASE("Whatever bytes change in its files, a run's page is made") {
  const Run run;
  const std::map<std::string, std::string> files{
      {"metrics.jsonl", steps(1, 4)},
      {"evaluations.jsonl", R"({"step": 3, "loss": 2.5, "bits_per_byte": 1.5, "tokens": 7})"
                            "\n"},
      {"events.jsonl", R"({"event": "start", "step": 3, "reason": "x"})"
                       "\n"},
      {"expert_loads.jsonl", R"({"step": 3, "layers": [0, 2], "picked": [[5, 3], [1, 7]], "dropped": [[1, 0], [0, 2]]})"
                             "\n"},
      {"config.resolved.json",
       R"({"run": {"steps": {"value": 4}, "name": {"value": "a"}}, "bf16": {"enabled": {"value": true}}})"},
      {"memory.json", R"({"ranks": [{"rank": 0, "tiers": {"device": {"planned_peak_bytes": 5, "measured_peak_bytes": 5,
        "peak_op": "a", "peak_phase": "b", "categories": {"weights": 3, "grads": 2}}}}],
        "processes": [{"ranks": [0], "rss_peak_bytes": 7, "outside_arena_bytes": 2}]})"},
      {"summary.json", R"({"exit_reason": "finished", "steps": 4, "tokens_per_second": 5, "state_xxh3": "00"})"},
      {"trace.json", trace_head + slice(0, 0, "step", "program", 0, 9) + slice(0, 1, "op", "forward", 1, 2) +
                         R"({"pid":0,"name":"device memory","ph":"C","tid":0,"ts":1.0,"args":{"weights":3}})"
                         "\n]}\n"}};
  uint64_t at = 0;
  const auto random = [&](size_t below) { return core::random_word({5, 0, 0}, at++) % below; };
  for (int i = 0; i < 1500; ++i) {
    for (const auto& [name, text] : files) {
      std::string changed = text;
      for (size_t n = random(4); n > 0; --n) {
        static const std::string bytes = "{}[]\":,-19e.n\n\\\xff";
        const size_t place = random(changed.size());
        switch (random(3)) {
          case 0:
            changed[place] = bytes[random(bytes.size())];
            break;
          case 1:
            changed.erase(place, 1 + random(6));
            break;
          default:
            changed.insert(place, 1, bytes[random(bytes.size())]);
        }
      }
      run.write(name, changed);
    }
    CHECK_NOTHROW(run.page());
  }
}

TEST_CASE("A run's curve on one line has a bar for each stretch of steps, and a blank where no loss is a number") {
  RunData run;
  CHECK(curve_line(run).empty());
  for (int64_t s = 1; s <= 16; ++s) {
    StepRow row;
    row.step = s;
    row.loss = s == 5 || s == 6 ? NAN : 8 - 0.5 * static_cast<double>((s - 1) / 2);
    run.steps.push_back(row);
  }
  // Stretches of two steps, means 8, 7.5, none, 6.5 … 4.5: the highest bar first, the lowest last.
  CHECK(curve_line(run, 8) == "loss 8 █▇ ▅▄▃▂▁ 4.5 over steps 1 to 16");
  run.evaluations.push_back({8, 6.25, NAN, 100});
  run.evaluations.push_back({16, 5.125, 1.75, 100});
  CHECK(curve_line(run, 8) == "loss 8 █▇ ▅▄▃▂▁ 4.5 over steps 1 to 16; held out 5.125, 1.75 bits per byte");
  run.steps[2].loss = NAN;  // the fourth step stands for the stretch
  CHECK(curve_line(run, 8) == "loss 8 █▇ ▅▄▃▂▁ 4.5 over steps 1 to 16; held out 5.125, 1.75 bits per byte");
  run.steps.resize(1);
  CHECK(curve_line(run, 8) == "loss 8 ▁ 8 over steps 1 to 1; held out 5.125, 1.75 bits per byte");
}

TEST_CASE("A run's curve on one line names its first and its last step, whichever steps lie between") {
  for (const auto& numbers : std::vector<std::vector<int64_t>>{{1, 2, 3}, {501, 502, 503, 504}, {1, 2, 40}, {7, 9}}) {
    RunData run;
    for (const int64_t number : numbers) {
      StepRow& row = run.steps.emplace_back();
      row.step = number, row.loss = 2;
    }
    CHECK_THAT(curve_line(run), Catch::EndsWith(" over steps " + std::to_string(numbers.front()) + " to " +
                                                std::to_string(numbers.back())));
  }
}

TEST_CASE("Every step that a run's metrics lack is counted, in whatever gaps") {
  const auto note = [](int64_t count, int64_t first) {
    return std::to_string(count) + " step(s) are missing from metrics.jsonl, the first of them step " +
           std::to_string(first) + ".";
  };
  const Run run;
  run.write("metrics.jsonl", steps(1, 2) + steps(6, 7));
  CHECK(has(run.page(), note(3, 3)));
  run.write("metrics.jsonl", steps(1, 2) + steps(4, 4) + steps(10, 12) + steps(14, 14));
  CHECK(has(run.page(), note(7, 3)));
  run.write("metrics.jsonl", steps(501, 503) + steps(1004, 1005));
  CHECK(has(run.page(), note(500, 504)));
  run.write("metrics.jsonl", steps(501, 505));
  CHECK_FALSE(has(run.page(), "missing from metrics.jsonl"));
}

TEST_CASE("A step that was taken again counts as it was taken last") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 6) + step_line(4, "0.25") + step_line(5, "0.125"));
  const RunData data = read_run(run.path);
  REQUIRE(data.steps.size() == 5);
  CHECK(data.steps[3].loss == 0.25);
  CHECK(data.steps[4].step == 5);
}

TEST_CASE("A resumed run says where it begins") {
  const Run run;
  run.write("metrics.jsonl", steps(101, 110));
  run.write("config.resolved.json", R"({"run": {"resume": {"value": "runs/a & b"}}})");
  CHECK(has(run.page(), "The first step here is 101"));
  CHECK(count(run.page(), "runs/a &amp; b") == 2);  // among the facts, and in the note
}

TEST_CASE("Names from files cannot break the page") {
  const Run run;
  const std::string evil = R"(<script>alert(1)</script>\"'>&)";
  run.write("metrics.jsonl", steps(1, 2));
  run.write("config.resolved.json",
            R"({"run": {"name": {"value": ")" + evil + R"("}}, "model": {"preset": {"value": ")" + evil + R"("}}})");
  run.write("memory.json", R"({"ranks": [{"rank": 0, "tiers": {")" + evil +
                               R"(": {"planned_peak_bytes": 5, "measured_peak_bytes": 6, "peak_op": ")" + evil +
                               R"(", "peak_phase": "step"}}}], "processes": [{"ranks": [")" + evil + R"("]}]})");
  run.write("summary.json", R"({"steps": 2, "exit_reason": ")" + evil + R"("})");
  run.write("trace.json", trace_head + slice(0, 0, "step", "program", 0, 9) + slice(0, 1, evil, evil, 1, 2) + "]}");
  const std::string page = run.page();
  CHECK(count(page, "<script>") == 1);
  CHECK(count(page, "alert(1)") == count(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK(count(page, "&lt;script&gt;alert(1)") >= 6);
  CHECK(has(page, "A measured peak differs"));
}

TEST_CASE("A long run makes a small page on which its spikes are seen") {
  const Run run;
  std::string lines;
  for (int64_t s = 1; s <= 20000; ++s) lines += step_line(s, s == 12345 ? "77.25" : s == 777 ? "null" : "2.5");
  run.write("metrics.jsonl", lines);
  const std::string page = run.page();
  CHECK(page.size() < 1000000);
  CHECK(has(page, "77.25"));
  CHECK(has(page, "first at step 777"));
}

TEST_CASE("Fewer points keep the smallest and largest value of every stretch") {
  Points points;
  points.y.resize(2);
  for (int i = 0; i < 1000; ++i) {
    points.x.push_back(i);
    points.y[0].push_back(i == 501 ? -5 : i == 507 ? 9 : 1);
    points.y[1].push_back(i < 500 ? static_cast<double>(NAN) : i);
  }
  const Points fewer = decimate(points, 20);
  REQUIRE(fewer.x.size() == 20);
  CHECK(fewer.x.front() == 0);
  CHECK(fewer.x.back() == 999);
  CHECK(fewer.y[0][10] == -5);  // of 500 … 599, in their order
  CHECK(fewer.y[0][11] == 9);
  CHECK(std::isnan(fewer.y[1][9]));
  CHECK(fewer.y[1][10] == 500);
  CHECK(fewer.y[1][11] == 599);
  CHECK(fewer.labels[10] == "500 to 599: lowest and highest");
  const Points same = decimate(points, 1000);
  CHECK(same.y[0] == points.y[0]);
  CHECK(same.labels == std::vector<std::string>(1000));
}

}  // namespace zrt::report_test
