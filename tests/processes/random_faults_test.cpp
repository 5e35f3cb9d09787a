// Random faults of runs of several processes under zrt launch: whatever happens to a rank, the run is started again and
// ends with the bits of one that was left alone. 20 of them, 200 with ZRT_FULL_TESTS.
#include <cstdlib>
#include <random>
#include <regex>
#include <sstream>

#include "run_of_processes.h"
#include "tests/seed.h"

namespace zrt::random_faults_test {
namespace {

using namespace testing;
using namespace std::chrono_literals;

struct Mesh {
  int ranks;
  std::string sets;
};

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> all{
      {2, " --set zero_optimization.stage=3"},
      {4, " --set zero_optimization.stage=2 --set parallel.tensor=2"},
      {3, " --set zero_optimization.stage=1 --set train_batch_size=9"},
      {4, " --set zero_optimization.stage=3 --set parallel.pipeline=2"},
  };
  return all;
}

enum class Fault { kill, stop, pause };

// The processes of the ranks below `zrt launch`, and below the `zrt ranks` that it started.
std::vector<pid_t> ranks_of(pid_t launcher) {
  const std::vector<pid_t> starter = children_of(launcher);
  return starter.empty() ? std::vector<pid_t>() : children_of(starter[0]);
}

bool ended(pid_t pid) {
  return kill(pid, 0) != 0;
}

TEST_CASE("a run of processes outlives whatever happens to a rank, and the rank is named", "[long]") {
  const Prepared folder("processes_faults", 16);
  std::mt19937 draw(test::test_seed());
  const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(draw); };
  std::vector<std::string> expected;
  std::vector<std::chrono::milliseconds> length;
  for (size_t m = 0; m < meshes().size(); ++m) {
    const auto began = std::chrono::steady_clock::now();
    const std::string name = fmt::format("whole{}", m);
    const Result whole = run_zrt(fmt::format("ranks {} ", meshes()[m].ranks) + folder.run(name, meshes()[m].sets));
    INFO(whole.text);
    REQUIRE(whole.code == 0);
    expected.push_back(state_of(folder / name));
    length.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began));
  }
  const int faults = std::getenv("ZRT_FULL_TESTS") ? 200 : 20;
  for (int number = 0; number < faults; ++number) {
    const auto m = static_cast<size_t>(up_to(static_cast<int>(meshes().size()) - 1));
    const Mesh& mesh = meshes()[m];
    const auto fault = static_cast<Fault>(up_to(2));
    const int victim = up_to(mesh.ranks - 1);
    const auto when = std::chrono::milliseconds(up_to(static_cast<int>(length[m].count())));
    const std::string run = fmt::format("run{}", number), log = folder / (run + ".log");
    CAPTURE(number, mesh.ranks, mesh.sets, static_cast<int>(fault), victim, when.count());
    const std::string command = fmt::format(
        "launch {}{} --processes --ranks {} --delay 0.05 --out {}{} --set run.checkpoint_interval=3 --set "
        "run.timeout_seconds=4",
        folder / "config.json", device(), mesh.ranks, folder / run, mesh.sets);
    const pid_t launcher = start_zrt(command, log);
    REQUIRE(
        comes_true([&] { return ranks_of(launcher).size() == static_cast<size_t>(mesh.ranks) || ended(launcher); }));
    // A rank that stands still before it has met the others is waited for two minutes.
    if (fault != Fault::kill)
      REQUIRE(comes_true([&] { return fs::exists(folder / (run + "/metrics.jsonl")) || ended(launcher); }));
    std::this_thread::sleep_for(when);
    const std::vector<pid_t> ranks = ranks_of(launcher);
    const bool hits = ranks.size() == static_cast<size_t>(mesh.ranks);  // it may have come to its end before
    const auto struck = std::chrono::steady_clock::now();
    if (hits) kill(ranks[static_cast<size_t>(victim)], fault == Fault::kill ? SIGKILL : SIGSTOP);
    if (hits && fault == Fault::pause) {
      std::this_thread::sleep_for(300ms);
      kill(ranks[static_cast<size_t>(victim)], SIGCONT);
    }
    if (hits && fault != Fault::pause) {
      // The time-out and five seconds, on a machine that is busy with others: three times that.
      const auto gone = [&] { return std::all_of(ranks.begin(), ranks.end(), [](pid_t rank) { return ended(rank); }); };
      REQUIRE(comes_true(gone));
      const auto took = std::chrono::steady_clock::now() - struck;
      CHECK(took < 27s);
    }
    const int code = end_of(launcher);
    const std::string text = text_of(log);
    INFO(text);
    // A run that ends before a rank has begun is not started again; its message says who it was, and the next start
    // goes on.
    const bool early = text.find("before any rank gave a sign of life") != std::string::npos;
    if (early) {
      REQUIRE((hits && fault != Fault::pause && code == (fault == Fault::kill ? 128 + SIGKILL : 1)));
      REQUIRE(run_zrt(command).code == 0);
    } else {
      REQUIRE(code == 0);
    }
    CHECK(state_of(folder / run) == expected[m]);
    const bool again = early || text.find("0 restarts") == std::string::npos;
    if (again && fault == Fault::kill) {
      CHECK_THAT(text, Catch::Contains(fmt::format("rank {} (process {}) ended with signal 9", victim,
                                                   ranks[static_cast<size_t>(victim)])));
    }
    if (again && fault == Fault::stop) {
      // A rank that stops behind its last call keeps nobody waiting but the supervisor.
      CHECK_THAT(text,
                 Catch::Contains("timed out after 4000 ms") || Catch::Contains("hang: no sign of life for 8.0 s"));
      // The starter's words, or the group's, whose first call the others have come to.
      const std::string words = fmt::format("(waited for ranks?|missing ranks:) ([0-9]+, )*{}\\b", victim);
      if (early) CHECK(std::regex_search(text, std::regex(words)));
      const std::string named = fmt::format("(process {})", ranks[static_cast<size_t>(victim)]);
      if (text.find("waited for that of") != std::string::npos) CHECK_THAT(text, Catch::Contains(named));
    }
    fs::remove_all(folder / run);
  }
}

}  // namespace
}  // namespace zrt::random_faults_test
