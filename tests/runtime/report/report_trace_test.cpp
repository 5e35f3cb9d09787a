// A run's page shows the last step of its trace.
#include "catch.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/run_data.h"
#include "runtime/report/trace_data.h"
#include "tests/runtime/report/run_files.h"

namespace zrt::report_trace_test {

using namespace zrt;
using namespace zrt::runtime::report;
using namespace zrt::run_files;

TEST_CASE("The last step of a trace is shown, of each rank, from its own start") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 7));
  const std::string counter =
      R"({"pid":1,"name":"device memory","ph":"C","tid":0,"ts":60.0,"args":{"weights":4096,"activations":512}},)"
      "\n";
  const std::string text = trace_head +
                           R"({"pid":1,"name":"thread_name","ph":"M","tid":1,"args":{"name":"compute"}},)"
                           "\n" +
                           slice(1, 0, "step", "program", 10, 30) + slice(1, 1, "old op", "forward", 10, 30) +
                           slice(1, 0, "step", "program", 50, 40) + slice(1, 1, "new op", "forward", 50, 20) +
                           slice(1, 1, "last op", "backward", 75, 15) + counter +
                           slice(1, 0, "eval", "program", 95, 9) + slice(1, 1, "eval op", "evaluate", 95, 9);
  run.write("trace.json", text + R"({"pid":0,"name":"x","ph":"M","tid":1,"args":{}})"
                                 "\n]}\n");
  std::vector<std::string> notes;
  const auto ranks = read_trace(run.path / "trace.json", notes);
  CHECK(notes.empty());
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].ops.empty());
  REQUIRE(ranks[1].ops.size() == 2);
  CHECK(ranks[1].step == 7);
  CHECK(ranks[1].lanes.at(1) == "compute");
  CHECK(ranks[1].ops[0].name == "new op");
  CHECK(ranks[1].ops[0].start_seconds == Approx(0).margin(1e-12));
  CHECK(ranks[1].ops[1].end_seconds == Approx(40e-6));
  CHECK(ranks[1].ops[0].details == "block h.<0>, 2.00 KiB");
  CHECK(ranks[1].memory.at("device").at(0).bytes.at("activations") == 512);
  const std::string page = run.page();
  CHECK(has(page, "<h2>Step 7: what each lane of each rank did"));
  CHECK(has(page, "rank 1 compute"));
  CHECK(has(page, "new op\nblock h.&lt;0&gt;"));
  CHECK(has(page, "Live device memory of rank 1 over this step"));
  CHECK_FALSE(has(page, "eval op"));
  // Cut anywhere, it shows what is whole.
  run.write("trace.json", text.substr(0, text.size() - 300));
  CHECK(has(run.page(), "trace.json is damaged from line"));
  CHECK(has(run.page(), "new op"));
  run.write("trace.json", trace_head);
  CHECK(has(run.page(), "trace.json ends too early."));
}

TEST_CASE("A step lasts until its last rank ends, and for what of it a rank does not compute it is idle") {
  // Each rank computes for a second, once the one before has, and then receives for so many seconds.
  const auto page = [](const std::vector<double>& receipts) {
    const Run run;
    run.write("metrics.jsonl", steps(1, 7));
    std::string text = trace_head;
    for (size_t r = 0; r < receipts.size(); ++r) {
      const int rank = static_cast<int>(r);
      const double begin = 1e6 * rank, end = begin + 1e6 * (1 + receipts[r]);
      for (const auto& [lane, name] : {std::pair{1, "compute"}, {2, "comm:pp"}}) {
        text += R"({"pid":)" + std::to_string(rank) + R"(,"name":"thread_name","ph":"M","tid":)" +
                std::to_string(lane) + R"(,"args":{"name":")" + name + "\"}},\n";
      }
      text += slice(rank, 0, "step", "program", 0, end) + slice(rank, 1, "op", "forward", begin, 1e6) +
              slice(rank, 2, "receipt", "receive", begin + 1e6, end - begin - 1e6);
    }
    run.write("trace.json", text + R"({"pid":0,"name":"x","ph":"M","tid":1,"args":{}})" + "\n]}\n");
    return run.page();
  };
  const auto table = [](const std::string& idle) {
    return zrt::runtime::draw::table({"rank", "computes", "idle"}, {{"0", "1 s", idle}, {"1", "1 s", idle}});
  };
  // The second rank ends last, the first does, both end at once.
  for (const auto& [receipts, seconds, idle] : std::vector<std::tuple<std::vector<double>, std::string, std::string>>{
           {{0.5, 3}, "5", "80.0 %"}, {{3, 0.5}, "4", "75.0 %"}, {{1.5, 0.5}, "2.5", "60.0 %"}}) {
    const std::string shown = page(receipts);
    CAPTURE(seconds, idle);
    CHECK(has(shown, table(idle)));
    const size_t lanes = shown.find("<h2>Step 7: what each lane of each rank did");
    REQUIRE(lanes != std::string::npos);
    CHECK(has(shown.substr(lanes, shown.find("<rect", lanes) - lanes), " data-to=\"" + seconds + "\""));
  }
}

TEST_CASE("A trace of very many ops makes a small page") {
  const Run run;
  run.write("metrics.jsonl", steps(1, 2));
  std::string text = trace_head + slice(0, 0, "step", "program", 0, 100000);
  for (int i = 0; i < 50000; ++i) text += slice(0, 1, "op", "forward", 2 * i, 1.5);
  for (int i = 0; i < 50000; ++i) {
    text += R"({"pid":0,"name":"device memory","ph":"C","tid":0,"ts":)" + std::to_string(2 * i) +
            R"(,"args":{"weights":100,"activations":)" + std::to_string(i == 31313 ? 987654321 : i % 7) + "}},\n";
  }
  run.write("trace.json", text + R"({"pid":0,"name":"x","ph":"M","tid":1,"args":{}})"
                                 "\n]}\n");
  const std::string page = run.page();
  CHECK(page.size() < 1500000);
  CHECK(has(page, " ops, the last of them op"));
  CHECK(has(page, "987654321"));  // the peak is not lost
}

}  // namespace zrt::report_trace_test
