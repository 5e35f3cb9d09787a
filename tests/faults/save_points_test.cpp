// A save that is killed or meets an error at every call that changes a file.
#include <algorithm>

#include "faults/faults.h"

using namespace zrt::testing;

namespace {

// A run with the checkpoints of steps 2 and 4, which each case goes on from, and what comes of it without a fault.
struct Base : Folder {
  std::string final_state;
  std::map<int64_t, std::string> manifests;  // of steps 2, 4, 6, 8

  Base() : Folder("save_points") {
    build_data(*this);
    write("c.json", config());
    REQUIRE(run("", "--steps 4").code == 0);
    fs::copy(path / "run", path / "base", fs::copy_options::recursive);
    manifests = require_whole(store());
    REQUIRE(run("", "--steps 8").code == 0);
    manifests.merge(require_whole(store()));
    REQUIRE(manifests.size() == 4);
    final_state = read_json(*this / "run/summary.json")["state_xxh3"];
  }

  fs::path store() const { return path / "run/checkpoints"; }
  void reset() const {
    fs::remove_all(path / "run");
    fs::copy(path / "base", path / "run", fs::copy_options::recursive);
  }
  Result run(const std::string& before, const std::string& more, const std::string& resume = "auto") const {
    return run_command(before + ZRT_BINARY_DIR "/zrt train " + (*this / "c.json") +
                       " --ranks 2 --set run.checkpoint_interval=2 --set data.validation=null --resume " + resume +
                       " " + more);
  }
  Result faulted(const Fault& fault, const std::string& more, const std::string& resume = "auto") const {
    fs::remove(path / "log");
    return run(with_fault(store().string(), fault, *this / "log"), more, resume);
  }
  // The calls that a run makes where they lie in one order: in a shard, which one thread writes, or in no shard.
  std::vector<std::string> calls(const std::string& match, const std::string& more, const std::string& resume = "auto",
                                 const std::string& variables = "") const {
    reset();
    const Result result = faulted({"", 0, match, "", false, variables}, more, resume);
    INFO(result.text);
    REQUIRE(result.code == 0);
    return read_lines(path / "log");
  }
};

const std::vector<std::string> places{"shard-00001", "shard-00002", "!shard-"};

// Goes on without a fault: the same bits as if nothing had happened, and nothing lies about.
void check_restart(const Base& base, const std::string& more) {
  const Result again = base.run("", more);
  INFO(again.text);
  REQUIRE(again.code == 0);
  CHECK(read_json(base / "run/summary.json")["state_xxh3"] == base.final_state);
  CHECK(run_zrt("checkpoint verify " + (base / "run")).code == 0);
  check_no_leftovers(base.path / "run");
}

}  // namespace

TEST_CASE("a run killed at any call of a save leaves the old or the new checkpoint, each whole, and goes on from it") {
  const Base base;
  Moments moments;
  size_t old = 0, renewed = 0;
  for (const std::string& place : places) {
    const size_t points = base.calls(place, "--steps 6").size();
    REQUIRE(points > 15);
    const auto restarted = moments.some(place[0] == '!' || full_tests() ? points : 5, points);
    for (size_t at = 1; at <= points; ++at) {
      base.reset();
      const Result killed = base.faulted({"kill", at, place, ""}, "--steps 6");
      const auto left = require_whole(base.store());
      INFO("seed " << moments.seed << ", killed at call " << at << " of " << points << ": "
                   << read_lines(base / "log").back() << "\n"
                   << killed.text);
      REQUIRE(killed.code == 137);
      REQUIRE(left.count(4) == 1);
      for (const auto& [step, manifest] : left) CHECK(manifest == base.manifests.at(step));
      ++(left.count(6) ? renewed : old);
      if (std::count(restarted.begin(), restarted.end(), at)) check_restart(base, "--steps 8");
    }
  }
  CHECK(old > 100);
  CHECK(renewed > 5);
}

TEST_CASE("a checkpoint that replaces one of its step, killed at any call, leaves one of the two") {
  const Base base;
  for (const std::string variables : {"", "ZRT_FAULT_NO_EXCHANGE=1"}) {
    const std::string from = base / "base/checkpoints/step_2", more = "--steps 4 --set optimizer.params.lr=0.001";
    const size_t points = base.calls("!shard-", more, from, variables).size();
    const auto changed = require_whole(base.store());
    REQUIRE(changed.at(4) != base.manifests.at(4));
    size_t old = 0, renewed = 0;
    for (size_t at = 1; at <= points; ++at) {
      base.reset();
      fs::remove_all(base.store() / "step_2");
      const Result killed = base.faulted({"kill", at, "!shard-", "", false, variables}, more, from);
      INFO(variables << " killed at call " << at << " of " << points << ": " << read_lines(base / "log").back() << "\n"
                     << killed.text);
      REQUIRE(killed.code == 137);
      const Result again = base.run("", "--steps 4");
      INFO(again.text);
      REQUIRE(again.code == 0);
      REQUIRE(contains(again.text, "going on after step 4 "));
      const auto left = require_whole(base.store());
      REQUIRE(left.count(4) == 1);
      CHECK((left.at(4) == base.manifests.at(4) || left.at(4) == changed.at(4)));
      ++(left.at(4) == changed.at(4) ? renewed : old);
      check_no_leftovers(base.path / "run");
    }
    CHECK(old > 5);
    CHECK(renewed > 5);
  }
}

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
    if (!full_tests()) writes.resize(std::min<size_t>(writes.size(), 10));
    others.insert(others.end(), writes.begin(), writes.end());
    for (const char* kind : {"EIO", "EINTR", "short"}) {
      for (const size_t at : others) {
        const std::string& call = calls[at - 1];
        const std::string op = call.substr(0, call.find(' '));
        if (std::string(kind) == "short" && op != "write") continue;
        if (std::string(kind) == "EINTR" && op != "write" && op != "fsync" && op != "open") continue;
        base.reset();
        const Result result = base.faulted({kind, at, place, ""}, "--steps 8");
        INFO("seed " << moments.seed << ", " << kind << " at call " << at << ": " << call << "\n" << result.text);
        REQUIRE(result.code == 0);
        const auto summary = read_json(base / "run/summary.json");
        CHECK(summary["state_xxh3"] == base.final_state);
        const auto left = require_whole(base.store());
        for (const auto& [step, manifest] : left) CHECK(manifest == base.manifests.at(step));
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
