#include "runtime/train/stop_inquiry.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "tests/seed.h"

namespace zrt::stop_inquiry_test {

using namespace std::chrono_literals;
using runtime::StopInquiry;

namespace {

// Processes that are threads of the test and exchange texts.
struct Meeting {
  explicit Meeting(size_t size) : texts(size) {}
  std::vector<std::string> exchange(size_t place, const std::string& text) {
    std::unique_lock lock(mutex);
    texts[place] = text;
    const int round = rounds;
    if (++come == texts.size()) {
      said = texts, come = 0, ++rounds;
      all.notify_all();
    }
    all.wait(lock, [&] { return rounds != round; });
    return said;
  }
  std::mutex mutex;
  std::condition_variable all;
  std::vector<std::string> texts, said;
  size_t come = 0;
  int rounds = 0;
};

class Process final : public comm::Transport {
 public:
  Process(Meeting& meeting, size_t place) : meeting_(meeting), place_(place) {}
  std::string_view name() const override { return "test"; }
  int world() const override { return static_cast<int>(meeting_.texts.size()); }
  int first_local() const override { return static_cast<int>(place_); }
  int local_count() const override { return 1; }
  int host_count() const override { return world(); }
  void connect_gpus_by_nccl() override {}
  std::vector<std::unique_ptr<comm::Communicator>> make_groups(const std::string&, const comm::Partition&,
                                                               std::chrono::milliseconds) override {
    return {};
  }
  std::unique_ptr<core::Arena> make_arena(int, core::Tier, uint64_t, core::DeviceKind) override { return nullptr; }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds) override {
    return meeting_.exchange(place_, text);
  }
  void fail(const std::exception&, const std::function<void()>&, int) override {}

 private:
  Meeting& meeting_;
  const size_t place_;
};

// The batches that each of three processes takes until all stop, of `most`; `stops` says it of a process and batch.
std::vector<int> batches_taken(Meeting& meeting, int most, const std::function<void(size_t, int)>& work,
                               const std::function<bool(size_t, int)>& stops) {
  std::vector<int> taken(meeting.texts.size());
  std::vector<std::thread> threads;
  for (size_t p = 0; p < taken.size(); ++p) {
    threads.emplace_back([&, p] {
      Process transport(meeting, p);
      StopInquiry inquiry(
          transport, [&, p] { return stops(p, taken[p]); }, 60s);
      for (; taken[p] < most && !inquiry.ask(); ++taken[p]) work(p, taken[p]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return taken;
}

}  // namespace

TEST_CASE("processes of unequal speed stop an evaluation at the same batch, soon after one of them is asked to") {
  const uint64_t seed = test::test_seed();
  for (const int from : {0, 1, 7}) {
    Meeting meeting(3);
    const auto work = [&](size_t p, int batch) {
      std::mt19937_64 random(seed + p * 1000 + static_cast<uint64_t>(batch));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % (20 * (p + 1))));
    };
    const std::vector<int> taken =
        batches_taken(meeting, 100000, work, [&](size_t p, int batch) { return p == 1 && batch >= from; });
    CAPTURE(from, taken);
    CHECK(taken[0] == taken[1]);
    CHECK(taken[2] == taken[1]);
    CHECK(taken[1] >= from);
    CHECK(taken[1] <= from + 1000);
  }
}

TEST_CASE("processes whose batches are short ask each other at few of them") {
  Meeting meeting(3);
  const int batches = 20000;
  const std::vector<int> taken = batches_taken(
      meeting, batches, [](size_t, int) {}, [](size_t, int) { return false; });
  CHECK(taken == std::vector<int>(3, batches));
  CHECK(meeting.rounds < batches / 2);
}

TEST_CASE("a run of one process asks itself at each batch") {
  Meeting meeting(1);
  Process transport(meeting, 0);
  int asked = 0;
  StopInquiry inquiry(
      transport, [&] { return ++asked == 3; }, 1s);
  CHECK(!inquiry.ask());
  CHECK(!inquiry.ask());
  CHECK(inquiry.ask());
  CHECK(meeting.rounds == 0);
  StopInquiry never(transport, {}, 1s);
  CHECK(!never.ask());
}

}  // namespace zrt::stop_inquiry_test
