// Links between GPUs that NCCL connects and that are lost: the ranks end within the time-out and five seconds, say in
// which call, and `zrt launch` goes on to the bits of a run that was left alone. The emulated GPU's stand-in for NCCL
// loses them (tests/emulator/nccl.cpp).
#include <cstdlib>
#include <random>

#include "run_of_processes.h"
#include "tests/seed.h"

namespace zrt::lost_link_test {
namespace {

using namespace testing;
using namespace std::chrono_literals;

struct Mesh {
  int ranks;
  std::string sets;
};

// Tells the stand-in what to do, in the environment of programs that are started while this lives.
struct PlantedFault {
  explicit PlantedFault(const std::string& fault) { setenv("ZRT_EMULATED_NCCL", fault.c_str(), 1); }
  ~PlantedFault() { unsetenv("ZRT_EMULATED_NCCL"); }
};

std::string train(const Prepared& folder, const Mesh& mesh, const std::string& name) {
  return fmt::format("{}{} --out {}{} --set run.checkpoint_interval=3", folder / "config.json", device(), folder / name,
                     mesh.sets);
}

std::string whole(const Prepared& folder, const Mesh& mesh, const std::string& name) {
  const Result result =
      run_zrt(fmt::format("ranks {} train {} --transport nccl", mesh.ranks, train(folder, mesh, name)));
  INFO(result.text);
  REQUIRE(result.code == 0);
  return state_of(folder / name);
}

// Returns whether the run came to the call of that number.
bool lose(const Prepared& folder, const Mesh& mesh, const std::string& kind, int rank, int call,
          const std::string& expected) {
  const std::string mark = folder / "mark", log = folder / "log";
  fs::remove(mark);
  fs::remove_all(folder / "run");
  pid_t launcher = 0;
  {
    const PlantedFault fault(fmt::format("{} {} {} {}", kind, rank, call, mark));
    launcher = start_zrt(fmt::format("launch {} --processes --ranks {} --delay 0.05 --set run.timeout_seconds=4 -- "
                                     "--transport nccl",
                                     train(folder, mesh, "run"), mesh.ranks),
                         log);
  }
  std::vector<pid_t> ranks;
  const auto ended = [](pid_t pid) { return kill(pid, 0) != 0; };
  REQUIRE(comes_true([&] { return fs::exists(mark) || fs::exists(folder / "run/summary.json"); }));
  // The first child is `zrt ranks`, which has the ranks.
  const bool hit = fs::exists(mark);
  const auto struck = std::chrono::steady_clock::now();
  if (const std::vector<pid_t> starter = children_of(launcher); hit && !starter.empty())
    ranks = children_of(starter[0]);
  REQUIRE(comes_true([&] { return std::all_of(ranks.begin(), ranks.end(), ended); }));
  // The stream comes to the call some time after it was queued.
  const auto took = std::chrono::steady_clock::now() - struck;
  if (hit && took > 9s) WARN("all ranks had ended after " << took / 1ms << " ms");
  const int code = end_of(launcher);
  const std::string text = text_of(log);
  INFO(text);
  REQUIRE(code == 0);
  CHECK(state_of(folder / "run") == expected);
  if (!hit) return false;
  CHECK_THAT(text, !Catch::Contains("0 restarts"));
  const std::string reason =
      kind == "stall" ? "timed out after 4000 ms on its GPU" : "a process of the group has ended (emulated)";
  if (kind == "stall") CHECK_THAT(text, Catch::Contains("last queued:\n    #"));
  CHECK_THAT(text, Catch::Contains(reason) && (Catch::Contains("cannot go on: ") || Catch::Contains("failed on rank")));
  return true;
}

}  // namespace

TEST_CASE("a run whose link stands still ends in time with the call, and goes on to the bits of one left alone") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("link_stalls", 4);
  const Mesh mesh{2, " --set zero_optimization.stage=2"};
  CHECK(lose(folder, mesh, "stall", 1, 40, whole(folder, mesh, "whole")));
}

TEST_CASE("a process that NCCL does not let out of a lost link ends all the same, and the run can go on") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("link_deaf", 4);
  const Mesh mesh{2, " --set zero_optimization.stage=2"};
  const std::string expected = whole(folder, mesh, "whole");
  const std::string run = fmt::format("ranks 2 train {} --resume auto --transport nccl --set run.timeout_seconds=2",
                                      train(folder, mesh, "run"));
  Result lost;
  {
    const PlantedFault fault(fmt::format("deaf 1 40 {}", folder / "mark"));
    lost = run_zrt(run);
  }
  CHECK(lost.code == 1);
  CHECK_THAT(lost.text, Catch::Contains("of group dp cannot leave its group: NCCL, or what its GPU has still to do, "
                                        "has not given it up within 4 s, and this process ends") &&
                            Catch::Contains("timed out after 2000 ms on its GPU"));
  CHECK(run_zrt(run).code == 0);
  CHECK(state_of(folder / "run") == expected);
}

TEST_CASE("a link is lost while the host waits for the GPU to take more work, which an abort alone lets it do",
          "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("link_stalls_early", 2);
  const Mesh mesh{2, " --set zero_optimization.stage=3 --set model.layers=16"};
  CHECK(lose(folder, mesh, "stall", 1, 60, whole(folder, mesh, "whole")));
}

TEST_CASE("whatever link is lost at whatever call, with a word of NCCL or without, a run outlives it", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("links_lost", 6);
  const std::vector<Mesh> meshes{{2, " --set zero_optimization.stage=2"},
                                 {4, " --set zero_optimization.stage=3 --set parallel.tensor=2"},
                                 {2, " --set zero_optimization.stage=1 --set parallel.pipeline=2"}};
  std::vector<std::string> expected;
  for (size_t m = 0; m < meshes.size(); ++m) expected.push_back(whole(folder, meshes[m], fmt::format("whole{}", m)));
  std::mt19937 draw(test::test_seed());
  const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(draw); };
  const int faults = std::getenv("ZRT_FULL_TESTS") ? 60 : 6;
  int hits = 0;
  for (int number = 0; number < faults; ++number) {
    const auto m = static_cast<size_t>(up_to(static_cast<int>(meshes.size()) - 1));
    const std::string kind = up_to(1) == 0 ? "stall" : "error";
    const int rank = up_to(1), call = 1 + up_to(120);
    CAPTURE(number, m, kind, rank, call);
    hits += lose(folder, meshes[m], kind, rank, call, expected[m]) ? 1 : 0;
  }
  CHECK(2 * hits >= faults);
}

}  // namespace zrt::lost_link_test
