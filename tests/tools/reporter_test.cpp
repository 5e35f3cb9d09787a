// The lines that `zrt train` writes while it trains.
#include "tools/commands/reporter.h"

#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <system_error>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "tools/commands/ranks.h"

namespace zrt::reporter_test {

using namespace zrt;

namespace {

// Keeps what is written to the error stream meanwhile.
class Listening {
 public:
  ~Listening() { std::cerr.rdbuf(before_); }
  std::string text() const { return heard_.str(); }

 private:
  std::ostringstream heard_;
  std::streambuf* before_ = std::cerr.rdbuf(heard_.rdbuf());
};

// "9 s left", "16 min 30 s left", "2 h 05 min left" in seconds, and the unit that was left out below.
std::pair<double, double> time_left(const std::string& line) {
  std::smatch found;
  INFO(line);
  REQUIRE(std::regex_search(line, found, std::regex("(?:(\\d+) h )?(?:(\\d+) min )?(?:(\\d+) s )?left")));
  double seconds = 0;
  for (size_t i = 1; i <= 3; ++i) seconds = 60 * seconds + (found[i].matched ? std::stod(found[i].str()) : 0);
  return {seconds, found[3].matched ? 1 : 60};
}

}  // namespace

TEST_CASE("The time left is that of the steps to come at the pace of the steps that this run has taken") {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  struct Case {
    int64_t resumed, taken, steps;
  };
  // Runs take steps from the beginning, and after steps that an earlier run took.
  for (const Case& c : {Case{0, 1, 5000}, Case{0, 10, 2000000}, Case{1000, 10, 20000}, Case{1000000, 2, 2000000},
                        Case{99000, 1, 100000}}) {
    const Listening listening;
    const auto before = Clock::now();
    tools::Reporter reporter(c.steps, 1);
    const auto started = Clock::now();
    if (c.resumed > 0) reporter.resumed(c.resumed, "run", 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const double least = since(started);
    runtime::StepMetrics metrics;
    metrics.step = c.resumed + c.taken;
    reporter.step(metrics);
    const double most = since(before);
    const auto [left, unit] =
        time_left(listening.text().substr(listening.text().find("step " + std::to_string(metrics.step))));
    const double per_second = static_cast<double>(c.steps - metrics.step) / static_cast<double>(c.taken);
    CAPTURE(c.resumed, c.taken, c.steps, listening.text(), least, most);
    CHECK(left > least * per_second - unit);
    CHECK(left <= most * per_second);
  }
}

TEST_CASE("An evaluation of several sets has a row for each, one of a single set has no table") {
  for (const size_t count : {1, 2, 3, 7}) {
    runtime::Evaluation all;
    all.loss = 2, all.tokens = 100 * count, all.bytes = 300;
    for (size_t set = 0; set < count; ++set) {
      runtime::Evaluation one;
      one.loss = 2, one.tokens = 100, one.bytes = 300, one.language = "language" + std::to_string(set);
      all.sets.push_back(one);
    }
    const std::string text = tools::evaluation_text(all);
    INFO(text);
    for (size_t set = 0; set < count; ++set) {
      const bool row = text.find("\nlanguage" + std::to_string(set)) != std::string::npos;
      CHECK(row == (count > 1));
    }
  }
}

TEST_CASE("an error of the system or of a library is said in zrt's words") {
  const auto said = [](const std::exception& error) {
    Listening listening;
    tools::report_error(error);
    return listening.text();
  };
  const std::string threads = said(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(threads.find("starts no more threads") != std::string::npos);
  CHECK(threads.find("or use fewer ranks") != std::string::npos);
  CHECK(said(std::bad_alloc()).find("memory is exhausted") != std::string::npos);
  CHECK(said(core::DataError("a.json: is cut")) == "zrt: error: a.json: is cut\n");
  try {
    const auto number = nlohmann::json("text").get<int>();
    FAIL(number);
  } catch (const nlohmann::json::exception& error) {
    CHECK(said(error).find("json.exception") == std::string::npos);
  }
}

}  // namespace zrt::reporter_test
