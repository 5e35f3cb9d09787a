// A stage of a pipeline that dies or stands still, wherever it is: the others end by the time-out and name it, and the
// run goes on to the bits of one that met no fault.
#include <regex>

#include "faults/process.h"

namespace zrt::stages_test {

using namespace zrt::testing;

namespace {

constexpr int stages = 3, time_out = 5;

struct StagedRun : Folder {
  std::string expected;
  StagedRun() : Folder("stages") {
    build_data(*this);
    write("c.json", R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}, "zero_optimization": {"stage": 1},
  "parallel": {"pipeline": 3}, "model": {"preset": "gpt2-tiny", "layers": 3, "tied": false},
  "data": {"train": ")" +
                        (*this / "corpus/train") + R"("},
  "run": {"steps": 5, "checkpoint_interval": 1, "timeout_seconds": )" +
                        std::to_string(time_out) + R"(}})");
    fs::create_directories(path / "shm");
    Process whole(command("none", 0, 0), *this / "log");
    const int code = whole.wait();
    INFO(whole.text());
    REQUIRE(code == 0);
    expected = state(whole.text());
    fs::remove_all(path / "run");
  }
  std::string command(const std::string& place, int rank, int signal) const {
    return "env ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " ZRT_MPIRUN
           " --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 -n " +
           std::to_string(stages) + " " ZRT_BINARY_DIR "/stage_ranks " + (*this / "c.json") + " " + (*this / "run") +
           " " + place + " " + std::to_string(rank) + " " + std::to_string(signal);
  }
  static std::string state(const std::string& text) {
    const size_t at = text.find("state ");
    return at == std::string::npos ? text : text.substr(at, 22);
  }
};

// The number in the run of the rank that a message misses: "group pp.odd.forward[1-2] …; missing ranks: 1; …". The name
// of a group of all ranks lists none.
int missing_rank(const std::string& text) {
  std::smatch found;
  const std::regex pattern(R"(group [a-z.]+(?:\[(\d+)-\d+\])?[^;]*; missing ranks: (\d+);)");
  if (!std::regex_search(text, found, pattern)) return -1;
  return (found[1].matched ? std::stoi(found[1]) : 0) + std::stoi(found[2]);
}

struct Case {
  const char* place;
  int rank, signal;
};

std::vector<Case> cases() {
  if (!full_tests()) {
    return {{"forward", 0, SIGSTOP}, {"backward", 1, SIGSTOP}, {"send", 2, SIGSTOP}, {"update", 1, SIGSTOP},
            {"forward", 2, SIGKILL}, {"backward", 0, SIGKILL}, {"send", 1, SIGKILL}, {"update", 0, SIGKILL}};
  }
  std::vector<Case> all;
  for (const char* place : {"forward", "backward", "send", "update"}) {
    for (int rank = 0; rank < stages; ++rank) {
      for (const int signal : {SIGSTOP, SIGKILL}) all.push_back({place, rank, signal});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a stage that is killed or stands still is named after the time-out, and the run goes on to the same bits") {
  if (no_mpirun()) return;
  const StagedRun run;
  for (const Case& c : cases()) {
    fs::remove_all(run.path / "run");
    INFO(c.place << " of stage " << c.rank << ", signal " << c.signal);
    {
      Process process(run.command(c.place, c.rank, c.signal), run / "log");
      const int code = process.wait();
      const std::string text = process.text();
      INFO(text);
      CHECK(code != 0);
      if (c.signal == SIGSTOP) {
        CHECK(missing_rank(text) == c.rank);
        CHECK(contains(text, "timed out after " + std::to_string(1000 * time_out) + " ms"));
        CHECK(contains(text, "Last calls"));
      } else {
        CHECK(contains(text, "process rank " + std::to_string(c.rank)));
        CHECK(contains(text, "signal 9"));
      }
    }
    Process again(run.command("none", 0, 0), run / "log");
    const int code = again.wait();
    INFO(again.text());
    CHECK(code == 0);
    CHECK(StagedRun::state(again.text()) == run.expected);
    check_no_leftovers(run.path / "run");
  }
}

}  // namespace zrt::stages_test
