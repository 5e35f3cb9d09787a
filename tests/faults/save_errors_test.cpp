// A save that meets an error at calls that change a file.
#include "tests/faults/save_points.h"

namespace zrt::save_errors_test {

using namespace zrt::testing;

TEST_CASE("an I/O error at any call of a save never commits half, is told, and training goes on to the same bits") {
  const Base base;
  Moments moments;
  for (const std::string& place : places) {
    const std::vector<std::string> calls = base.calls(place, "--steps 6");
    std::vector<size_t> writes, others;
    for (size_t at = 1; at <= calls.size(); ++at) {
      (place[0] != '!' && calls[at - 1].rfind("write ", 0) == 0 ? writes : others).push_back(at);
    }
    // Writes into a shard are all alike.
    std::shuffle(writes.begin(), writes.end(), moments.random);
    if (!full_tests()) writes.resize(std::min<size_t>(writes.size(), 7));
    others.insert(others.end(), writes.begin(), writes.end());
    for (const char* kind : {"EIO", "EINTR", "short"}) {
      // Every place for an error that costs the save; a random third of them for what is only to be tried again.
      std::shuffle(others.begin(), others.end(), moments.random);
      const size_t count = std::string(kind) == "EIO" || full_tests() ? others.size() : others.size() / 3;
      for (const size_t at : std::vector<size_t>(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count))) {
        const std::string& call = calls[at - 1];
        const std::string op = call.substr(0, call.find(' '));
        if (std::string(kind) == "short" && op != "write") continue;
        if (std::string(kind) == "EINTR" && op != "write" && op != "fsync" && op != "open") continue;
        base.reset();
        const Result result = base.faulted({kind, at, place, ""}, "--steps 8");
        INFO("seed " << moments.seed << ", " << kind << " at call " << at << ": " << call << "\n" << result.text);
        // The look at the start, whether the run can save at all.
        if (std::string(kind) == "EIO" && contains(call, "open ") && contains(call, ".probe-")) {
          CHECK(result.code == 1);
          CHECK(contains(result.text, "checkpoints cannot be saved: "));
          CHECK(require_whole(base.store()).size() == 2);
          continue;
        }
        REQUIRE(result.code == 0);
        const auto summary = read_json(base / "run/summary.json");
        CHECK(summary["state_xxh3"] == base.final_state);
        const auto left = require_whole(base.store());
        for (const auto& [step, held] : left) CHECK(held == base.files.at(step));
        REQUIRE(left.count(8) == 1);
        check_no_leftovers(base.path / "run");
        const bool fails = std::string(kind) == "EIO" && op != "unlink" && contains(call, ".step_6.tmp");
        const bool told = contains(result.text, "checkpoint of step 6 was not saved");
        if (fails) {
          CHECK(told);
          CHECK(contains(result.text, "Input/output error"));
          CHECK(left.count(6) == 0);
          CHECK(summary["failed_saves"] == 1);
        } else if (std::string(kind) != "EIO") {
          CHECK_FALSE(told);
          CHECK(left.count(6) == 1);
        }
      }
    }
  }
}

TEST_CASE("where the file system knows no locks a run says that nothing keeps a second one out, and trains") {
  const Base base;
  for (const std::string variables : {"", "ZRT_FAULT_NO_LOCKS=1"}) {
    base.reset();
    const Result result = base.faulted({"", 0, "", "", false, variables}, "--steps 8");
    INFO(result.text);
    CHECK(result.code == 0);
    CHECK(contains(result.text, "knows no locks") == !variables.empty());
    CHECK(read_json(base / "run/summary.json")["state_xxh3"] == base.final_state);
  }
}

}  // namespace zrt::save_errors_test
