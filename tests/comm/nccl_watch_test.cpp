// A watch ends calls of NCCL that do not end by themselves; a stand-in plays NCCL: no GPU is needed.
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "nccl_stand_in.h"

namespace zrt::comm::nccl_watch_test {
namespace {

using namespace nccl_stand_in;

TEST_CASE("wrong arguments, and an error that NCCL met meanwhile, end a rank's end of the group") {
  ZRT_ONLY_ON_CPU();
  StandInGroup nccl(2, 64);
  float x[4] = {};
  CHECK_THROWS_WITH(nccl.group[0]->all_reduce(x, -4, DType::f32, "sum"), Catch::Contains("a count of -4"));
  CHECK(nccl.post.aborted == 1);
  CHECK_THROWS_WITH(nccl.group[0]->barrier("later"), Catch::Contains("a count of -4"));
  nccl.post.trouble = ncclRemoteError;
  CHECK_THROWS_WITH(nccl.group[1]->barrier("end"),
                    Catch::Contains("barrier \"end\" failed on rank 1") && Catch::Contains("a peer is gone"));
  CHECK(nccl.post.aborted == 2);
  nccl.group.clear();
  CHECK(nccl.post.destroyed == 0);
}

TEST_CASE("a rank waits while NCCL connects it with others, until that is done, the group is ended or time is up") {
  ZRT_ONLY_ON_CPU();
  StandInGroup nccl(2, 64);
  nccl.post.slow_votes = 3;
  nccl.group[0]->barrier("start");
  CHECK(nccl.post.under_way == 0);
  CHECK_NOTHROW(nccl.group[0]->require_alive());

  nccl.post.slow_votes = 40'000;  // some twenty seconds
  std::thread other([&] {
    while (nccl.post.under_way == 0) std::this_thread::yield();
    nccl.group[0]->abort("rank 1 lost its disk");
  });
  CHECK_THROWS_WITH(nccl.group[0]->barrier("middle"), Catch::Contains("rank 1 lost its disk"));
  other.join();
  CHECK(nccl.post.aborted == 1);
  CHECK_THROWS_WITH(nccl.group[0]->require_alive(), Catch::Contains("rank 1 lost its disk"));

  CHECK(nccl.post.under_way > 0);

  nccl.post.under_way = 0;
  std::vector<std::byte> staging(16);
  const auto hasty =
      make_communicator(std::make_shared<NcclRendezvous>(
                            stand_in(), &nccl.ends[1], NcclSeat{"dp", 1, {0, 0}, staging.data(), staging.size(), 50ms}),
                        1);
  CHECK_THROWS_WITH(hasty->barrier("end"), Catch::Contains("timed out after 50 ms: NCCL has not queued the call"));
  CHECK(nccl.post.aborted == 2);
}

TEST_CASE("ranks of a host learn what each queues, and a report has their last calls") {
  ZRT_ONLY_ON_CPU();
  Post post;
  post.size = 2;
  ncclComm end{&post, 1};
  std::vector<std::byte> staging(16);
  std::vector<FlightRecord> queued;
  NcclSeat seat{"dp", 1, {0, 0}, staging.data(), staging.size()};
  seat.neighbours.queued = [&](const FlightRecord& record) { queued.push_back(record); };
  seat.neighbours.last_calls = [] { return std::string("  rank 0 last queued:\n    #7 barrier\n"); };
  const auto calls = std::make_shared<NcclRendezvous>(stand_in(), &end, seat);
  calls->open(1, [](CollectiveCall& call) {
    call.kind = CollectiveKind::barrier;
    call.label = "end of step";
    return Rendezvous::Traffic{};
  });
  calls->close(1);
  REQUIRE(queued.size() == 1);
  CHECK(queued[0].label == "dp: end of step");
  CHECK(queued[0].kind == CollectiveKind::barrier);
  post.trouble = ncclRemoteError;
  CHECK_THAT(calls->trouble(), Catch::Contains("\"end of step\"") && Catch::Contains("  rank 0 last queued:\n    #7"));
}

TEST_CASE("a watch learns of an error that NCCL met, with the group, the rank and its last calls") {
  ZRT_ONLY_ON_CPU();
  Post post;
  post.size = 2;
  ncclComm end{&post, 1};
  std::vector<std::byte> staging(16);
  NcclRendezvous calls(stand_in(), &end, NcclSeat{"dp", 1, {0, 0}, staging.data(), staging.size()});
  CHECK(calls.trouble().empty());
  post.under_way = 1;
  CHECK(calls.trouble().empty());
  post.trouble = ncclRemoteError;
  CHECK_THAT(calls.trouble(), Catch::Contains("group dp of 2 ranks: its rank 1 cannot go on: NCCL reports \"a peer is "
                                              "gone\""));
  calls.abort("over");
  CHECK(calls.trouble().empty());
  CHECK(calls.reason() == "over");
}

struct Moment final : core::Event::State {
  bool reached = false;
  bool done() const override { return reached; }
  void wait() const override {}
  double seconds_since(const State&) const override { return 0; }
  double seconds(const core::Anchor&) const override { return 0; }
};

TEST_CASE("a call stands still once its GPU has been in it for the limit, however long it waited before") {
  QueuedCalls calls;
  const QueuedCalls::Clock::time_point start{};
  const auto begin = std::make_shared<Moment>(), end = std::make_shared<Moment>();
  const auto later = std::make_shared<Moment>();
  calls.add("sum", core::Event(begin), core::Event(end));
  calls.add("gather", core::Event(later), core::Event(later));
  const auto look = [&](std::chrono::seconds at) { return calls.look(start + at); };
  CHECK(look(0s).call.empty());
  CHECK(look(100s).call.empty());
  begin->reached = true;
  for (auto at = 101s; at < 111s; at += 1s) {
    CHECK(look(at).call == "sum");
    CHECK(look(at).stood == at - 101s);
  }
  CHECK(look(111s).stood == 10s);
  end->reached = true;
  CHECK(look(112s).call.empty());
  later->reached = true;
  CHECK(look(1000s).call.empty());
}

TEST_CASE("time in which nobody could look, as while a process is stopped, counts two seconds for a call") {
  QueuedCalls calls;
  const auto begin = std::make_shared<Moment>(), end = std::make_shared<Moment>();
  begin->reached = true;
  calls.add("sum", core::Event(begin), core::Event(end));
  const auto stood = [&](std::chrono::seconds at) { return calls.look(QueuedCalls::Clock::time_point(at)).stood; };
  for (const auto at : {0s, 1000s, 2000s, 3000s, 4000s}) CHECK(stood(at) == at / 500);
}

TEST_CASE("NCCL's watch is patient where ranks can name the one that stands, and speaks at once where it can itself") {
  Neighbours host;
  CHECK(host.patience("") == 0ms);  // it knows nobody
  host.standing = [] { return std::string(); };
  CHECK(host.patience("") >= 2s);  // all of this host wait: the rank that stands is beside others
  CHECK(host.patience("rank 3 (process 77)") == 0ms);
  host.watch = true;
  CHECK(host.patience("rank 3 (process 77)") >= 2s);
}

}  // namespace
}  // namespace zrt::comm::nccl_watch_test
