// `zrt report` of real runs, looked at with a browser.
#include "browser.h"
#include "program.h"

namespace zrt::report_test {

using namespace zrt::testing;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

std::string report(const std::string& arguments) {
  const Result result = run_zrt("report " + arguments);
  INFO(result.text);
  REQUIRE(result.code == 0);
  return result.text.substr(0, result.text.find('\n'));
}

void check_clean(const Shown& shown) {
  CHECK(shown.console == std::vector<std::string>{});
  CHECK(shown.requests == std::vector<std::string>{});
  CHECK(has(shown.document, "</html>"));
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("The browser test sees errors and requests of a page") {
  const Folder folder("control");
  folder.write("page.html",
               "<!DOCTYPE html><html><body><p id=\"a\">before</p><img src=\"http://127.0.0.1:9/x.png\">"
               "<script>document.getElementById('a').textContent='after';nothing()</script></body></html>");
  const Shown shown = show_page(folder / "page.html");
  CHECK(has(shown.document, ">after<"));
  REQUIRE_FALSE(shown.console.empty());
  CHECK(has(shown.console[0], "nothing is not defined"));
  CHECK(shown.requests == std::vector<std::string>{"http://127.0.0.1:9/x.png"});
}

TEST_CASE("The page of a traced run shows its curves, memory and timeline, and fetches nothing") {
  const Folder folder("report");
  build_data(folder);
  folder.write("c.json",
               folder.config(R"(, "tensorboard": {"enabled": true, "output_path": ")" + (folder / "board") +
                             R"("}, "csv_monitor": {"enabled": true, "output_path": ")" + (folder / "csv") + "\"}"));
  const Result trained =
      run_zrt("train " + (folder / "c.json") +
              " --ranks 2 --set run.trace=true --set run.trace_steps=[2,3] --set run.eval_interval=2 "
              "--set 'run.name=\"a <b>&c\"'");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const std::string file = report(folder / "run");
  CHECK(file == folder / "run/report.html");
  const Shown shown = show_page(file);
  check_clean(shown);
  const std::string& page = shown.document;
  CHECK(has(page, "<h1>Run a &lt;b&gt;&amp;c in "));
  CHECK(has(page, "finished after step 6 of 6"));
  for (const char* title :
       {"Training loss", "Held-out loss", "Throughput", "Time of a step", "Learning rate", "Gradient norm",
        "Memory: planned and measured peak", "Live device memory of each rank at the planned peak",
        "Step 3: what each lane of each rank did", "Live device memory of rank 0 over this step",
        "Live device memory of rank 1 over this step"}) {
    INFO(title);
    CHECK(has(page, std::string("<h2>") + title));
  }
  for (const char* lane : {"rank 0 compute", "rank 0 comm:dp", "rank 1 compute", "rank 1 comm:dp"})
    CHECK(has(page, lane));
  CHECK(count(page, "class=\"chart\"") == 10);
  CHECK(has(page, ">equal<"));
  CHECK_FALSE(has(page, ">differs<"));
  CHECK_FALSE(has(page, "class=\"notes\""));
  CHECK(has(page, "prefers-color-scheme"));
  // Monitors of the same run.
  CHECK(has(read(folder / "csv/DeepSpeedJobName/Train_Samples_train_loss.csv"), "\n24,"));
  CHECK(fs::exists(folder / "board/DeepSpeedJobName"));

  // The page shows what lies under the pointer, and the wheel zooms all charts of an axis.
  std::string moved = read(file);
  moved.insert(
      moved.rfind("</body>"),
      "<p id=\"seen\"></p><script>{const plot=document.querySelector('svg.plot'),"
      "r=plot.getBoundingClientRect();"
      "plot.dispatchEvent(new MouseEvent('mousemove',{clientX:r.left+r.width-1,clientY:r.top+5,bubbles:true}));"
      "plot.dispatchEvent(new WheelEvent('wheel',{clientX:r.left+5,clientY:r.top+5,deltaY:-100}));"
      "document.getElementById('seen').textContent='tip '+document.getElementById('tip').textContent+"
      "' zoomed '+[...document.querySelectorAll('svg.plot')].filter("
      "p=>p.viewBox.baseVal.width<1000).length}</script>");
  std::ofstream(folder / "moved.html") << moved;
  const Shown pointed = show_page(folder / "moved.html");
  check_clean(pointed);
  CHECK(has(pointed.document, "tip 5"));
  CHECK(has(pointed.document, "zoomed 6"));
}

TEST_CASE("The page of a run with one step, without a trace, and of one that is damaged, is whole too") {
  const Folder folder("small_report");
  build_data(folder);
  folder.write("c.json", folder.config());
  const Result trained = run_zrt("train " + (folder / "c.json") + " --steps 1");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const Shown one = show_page(report((folder / "run") + " --out " + (folder / "one.html")));
  check_clean(one);
  CHECK(has(one.document, "finished after step 1 of 1"));
  CHECK(has(one.document, "line dots"));
  CHECK(has(one.document, "There is no trace.json"));
  folder.write("run/metrics.jsonl", "{\"step\": 1, \"loss\": null}\nrubbish\n");
  folder.write("run/memory.json", "{");
  folder.write("run/trace.json", "rubbish");
  const Shown damaged = show_page(report(folder / "run"));
  check_clean(damaged);
  CHECK(has(damaged.document, "memory.json is damaged"));
}

TEST_CASE("Steps that a run does not take cannot be traced, and it says so") {
  const Folder folder("no_trace");
  build_data(folder);
  folder.write("c.json", folder.config());
  const Result trained =
      run_zrt("train " + (folder / "c.json") + " --set run.trace=true --set run.trace_steps=[50,60] --steps 2");
  INFO(trained.text);
  CHECK(trained.code == 0);
  CHECK(has(trained.text, "run.trace_steps is [50, 60], but this run takes the steps 1 to 2: nothing is traced"));
  CHECK_FALSE(fs::exists(folder / "run/trace.json"));
}

TEST_CASE("A report of nothing, or to nowhere, is an error that says so") {
  const Folder folder("no_report");
  const Result nothing = run_zrt("report " + (folder / "none"));
  CHECK(nothing.code == 1);
  CHECK(has(nothing.text, "none: is no folder"));
  folder.write("metrics.jsonl", "");
  const Result nowhere = run_zrt("report " + folder.path.string() + " --out /proc/nothing/page.html");
  CHECK(nowhere.code == 1);
  CHECK(has(nowhere.text, "/proc/nothing"));
  CHECK(run_zrt("report").code == 2);
  CHECK(run_zrt("report --help").code == 0);
}

}  // namespace zrt::report_test
