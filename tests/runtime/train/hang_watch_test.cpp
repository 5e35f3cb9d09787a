// When a supervisor takes a run for hung, and which signals it takes for one: exactly, on a clock that the test sets.
#include "runtime/train/launch/hang_watch.h"

#include <cmath>
#include <fstream>
#include <random>

#include "runtime/train/launch/progress.h"
#include "runtime/train/launch/stop_signals.h"
#include "tests/catch.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"

namespace zrt::hang_watch_test {

using namespace zrt::runtime;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

HangWatch::Time at(double seconds) {
  return HangWatch::Time(std::chrono::duration_cast<HangWatch::Time::duration>(Seconds(seconds + 1000)));
}

LaunchOptions learning() {
  LaunchOptions options;
  options.hang_timeout = Seconds(0);
  options.shortest_hang_timeout = Seconds(10);
  options.start_timeout = Seconds(100);
  return options;
}

}  // namespace

TEST_CASE("a run is hung after five times its longest pause so far, however short the pauses since have been") {
  const LaunchOptions options = learning();
  HangWatch watch(options);
  watch.start(at(0));
  watch.look(at(1), true, Seconds(0));  // the start is no pause
  CHECK(watch.limit() == Seconds(10));
  watch.look(at(4), true, Seconds(0));  // 3 s
  CHECK(watch.limit() == Seconds(15));
  watch.look(at(4.5), true, Seconds(0));
  CHECK(watch.limit() == Seconds(15));
  watch.look(at(6), true, Seconds(3.5));  // a step that the run tells of
  CHECK(watch.limit() == Seconds(17.5));
  for (double now = 6.25; now <= 6 + 17.5; now += 0.25) {
    watch.look(at(now), false, Seconds(3.5));
    CHECK_FALSE(watch.hung());
  }
  watch.look(at(6 + 17.75), false, Seconds(3.5));
  CHECK(watch.hung());
  // The next child is known by what this one has shown, once it lives.
  watch.start(at(30));
  CHECK(watch.limit() == Seconds(100));
  CHECK_FALSE(watch.hung());
  watch.look(at(32), true, Seconds(0));
  CHECK(watch.limit() == Seconds(17.5));
}

TEST_CASE("a limit that was asked for holds whatever was seen, and the start has one of its own") {
  LaunchOptions options = learning();
  options.hang_timeout = Seconds(2);
  HangWatch watch(options);
  watch.start(at(0));
  for (double now = 0; now <= 100; now += 2) watch.look(at(now), false, Seconds(0));
  CHECK_FALSE(watch.hung());
  watch.look(at(100.5), false, Seconds(0));
  CHECK(watch.hung());
  watch.look(at(101), true, Seconds(50));
  CHECK(watch.limit() == Seconds(2));
  watch.look(at(103), false, Seconds(50));
  CHECK_FALSE(watch.hung());
  watch.look(at(103.5), false, Seconds(50));
  CHECK(watch.hung());
  options.hang_timeout = Seconds(200);
  CHECK(HangWatch(options).limit() == Seconds(200));  // no start is given less
}

TEST_CASE("a supervisor that was itself stopped blames nobody for that while") {
  const LaunchOptions options = learning();
  HangWatch watch(options);
  watch.start(at(0));
  watch.look(at(1), true, Seconds(0));
  watch.look(at(3), false, Seconds(0));
  watch.look(at(1003), false, Seconds(0));
  CHECK_FALSE(watch.hung());
  watch.look(at(1004), true, Seconds(0));  // 3 s that were seen
  CHECK(watch.limit() == Seconds(15));
}

TEST_CASE("random runs have the limits that their signs of life say, worked out from all of them at once") {
  std::mt19937 random(test::test_seed());
  std::uniform_real_distribution<> turn(0.1, 3.9);
  for (int round = 0; round < 200; ++round) {
    const LaunchOptions options = learning();
    HangWatch watch(options);
    std::vector<std::vector<double>> signs;  // of each child
    double now = 0, step = 0;
    for (int i = 0; i < 100; ++i) {
      if (i == 0 || random() % 20 == 0) {
        watch.start(at(now));
        signs.emplace_back();
      }
      now += turn(random);
      const bool sign = random() % 3 == 0;
      if (random() % 10 == 0) step = std::max(step, turn(random));
      watch.look(at(now), sign, Seconds(step));
      if (sign) signs.back().push_back(now);

      double pause = step;
      for (const auto& child : signs) {
        for (size_t k = 1; k < child.size(); ++k) pause = std::max(pause, child[k] - child[k - 1]);
      }
      const double running = std::max(10.0, 5 * pause);
      const double limit = signs.back().empty() ? std::max(100.0, running) : running;
      INFO("seed " << test::test_seed() << ", round " << round << ", look " << i);
      CHECK(std::abs(watch.limit().count() - limit) < 1e-6);
    }
  }
}

TEST_CASE("a heartbeat is a sign of life whatever time it bears, as after a clock that was set back") {
  const testing::TemporaryFolder folder;
  const fs::path heartbeat = folder.path / "heartbeat", shard = folder.path / "checkpoints/.step_1.tmp/shard";
  fs::create_directories(shard.parent_path());
  std::ofstream(shard) << "x";
  std::ofstream{heartbeat};
  const auto now = fs::file_time_type::clock::now();
  const auto beat = [&](const fs::path& file, std::chrono::seconds ahead) { fs::last_write_time(file, now + ahead); };
  beat(heartbeat, 24h);
  beat(shard, 48h);
  RunProgress progress(folder.path);
  CHECK_FALSE(progress.poll());
  for (const std::chrono::seconds ahead : std::vector<std::chrono::seconds>{0s, 1s, -3600s, -3599s, 24h, 23h}) {
    for (const fs::path& file : {heartbeat, shard}) {
      INFO(file << " " << ahead.count());
      beat(file, ahead);
      CHECK(progress.poll());
      CHECK_FALSE(progress.poll());
    }
  }
}

TEST_CASE("signals within two seconds of the first are its echoes, and a later one is the second") {
  StopSignals signals;
  CHECK(signals.note(SIGTERM, at(0)) == StopSignal::first);
  for (const double echo : {0.0, 1e-6, 0.001, 1.0, 1.999999})
    CHECK(signals.note(SIGTERM, at(echo)) == StopSignal::echo);
  for (const double later : {2.0, 2.1, 3600.0}) {
    CHECK(signals.note(SIGTERM, at(later)) == StopSignal::second);
    // The kernel sends SIGXCPU each second, and who warns of the end of the time does not want it sooner.
    for (const int warning : {SIGUSR2, SIGXCPU}) CHECK(signals.note(warning, at(later)) == StopSignal::echo);
  }
  for (const int signal : stop_signals) CHECK(StopSignals().note(signal, at(3601)) == StopSignal::first);
}

}  // namespace zrt::hang_watch_test
