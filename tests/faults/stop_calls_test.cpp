// A process that stops before or inside each kind of collective: the others name it and the operation in time. Here
// ranks are forked, not started by mpirun, so that many groups can wait for their time-outs at once.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "comm/process/rendezvous.h"
#include "core/error.h"
#include "tests/faults/faults.h"

namespace zrt::stop_calls_test {

using namespace zrt::comm;
using namespace std::chrono_literals;
using zrt::testing::contains;

namespace {

constexpr int ranks = 3, stopped = 1, late = 2;
constexpr auto timeout = 3000ms;

// The processes of one group tell the test these things.
struct Shared {
  std::atomic<int> pids[ranks];
  std::atomic<bool> ended[ranks];  // whether each has learned of the failure
  char message[ranks][4000];
};

void call(Communicator& c, CollectiveKind kind, float* data) {
  const int next = (c.rank() + 1) % ranks, before = (c.rank() + ranks - 1) % ranks;
  const ReduceRange reduce{data, data + 300, 100, false};
  const GatherRange gather{data, data + 300, 100};
  const Message send{next, data, 400}, receive{before, data + 300, 400};
  switch (kind) {
    case CollectiveKind::all_reduce:
      return c.all_reduce(data, 300, DType::f32, "the call");
    case CollectiveKind::reduce_scatter:
      return c.reduce_scatter({&reduce, 1}, DType::f32, DType::f32, "the call");
    case CollectiveKind::all_gather:
      return c.all_gather({&gather, 1}, DType::f32, "the call");
    case CollectiveKind::all_to_all:
      return c.all_to_all(data, data + 300, 100, DType::f32, "the call");
    case CollectiveKind::broadcast:
      return c.broadcast(data, 100, DType::f32, 0, "the call");
    case CollectiveKind::send_recv:
      return c.send_recv({&send, 1}, {&receive, 1}, "the call");
    case CollectiveKind::barrier:
      return c.barrier("the call");
  }
}

bool stands_still(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line[name_end + 2] == 'T';
}

// One rank. The last to come waits until the one that is to stop has stopped.
void run_rank(int rank, Shared& shared, std::shared_ptr<Segment> segment, CollectiveKind kind, bool inside,
              double moment) {
  alarm(300);  // should the others wait for ever
  shared.pids[rank] = getpid();
  for (auto& pid : shared.pids) {
    while (pid == 0) std::this_thread::sleep_for(1ms);
  }
  SharedArenas arenas;
  Membership membership{"dp", rank, timeout, {}, segment, &arenas};
  for (int peer = 0; peer < ranks; ++peer) {
    Peer& made = membership.peers.emplace_back();
    made.member = peer, made.pid = shared.pids[peer];
    if (peer != rank) made.channel = segment->channel(rank, peer);
  }
  const auto c = make_communicator(std::make_shared<ProcessRendezvous>(std::move(membership)), rank);
  const auto arena = arenas.make(zrt::core::Tier::device, 8192);
  c->barrier("start");
  if (rank == stopped && !inside) raise(SIGSTOP);
  std::thread stopper;
  if (rank == stopped && inside) {
    stopper = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(moment));
      kill(getpid(), SIGSTOP);
    });
    stopper.detach();
  }
  while (rank == late && !stands_still(shared.pids[stopped])) std::this_thread::sleep_for(1ms);
  try {
    call(*c, kind, reinterpret_cast<float*>(arena->data()));
    // A rank that need not wait for the stopped one leaves the word to the other.
    while (!shared.ended[rank == late ? 0 : late]) std::this_thread::sleep_for(1ms);
    c->barrier("after the call");
  } catch (const zrt::core::CommError& error) {
    std::strncpy(shared.message[rank], error.what(), sizeof shared.message[rank] - 1);
    shared.ended[rank] = true;
  }
}

struct Case {
  CollectiveKind kind;
  bool inside;
  double moment;
  Shared* shared;
  std::shared_ptr<Segment> segment;
  pid_t pids[ranks];
};

}  // namespace

TEST_CASE("whichever collective a process stops before or in, the others name both after the time-out") {
  zrt::testing::Moments moments;
  for (int round = 0; round < (zrt::testing::full_tests() ? 20 : 2); ++round) {
    std::vector<Case> cases;
    for (size_t kind = 0; kind < collective_kind_count; ++kind) {
      for (const bool inside : {false, true}) {
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        Case& made = cases.emplace_back(Case{static_cast<CollectiveKind>(kind),
                                             inside,
                                             moments.between(0.02, 0.2),
                                             static_cast<Shared*>(memory),
                                             std::make_shared<Segment>(ranks),
                                             {}});
        for (int rank = 0; rank < ranks; ++rank) {
          made.pids[rank] = fork();
          if (made.pids[rank] > 0) continue;
          run_rank(rank, *made.shared, made.segment, made.kind, made.inside, made.moment);
          _exit(0);
        }
      }
    }
    for (const Case& c : cases) {
      INFO("seed " << moments.seed << ", " << collective_kind_name(c.kind) << (c.inside ? " inside" : " before"));
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == stopped) continue;
        int status = 0;
        waitpid(c.pids[rank], &status, 0);
        const std::string message = c.shared->message[rank];
        INFO("rank " << rank << ": " << message);
        CHECK(contains(message, std::string(collective_kind_name(c.kind)) + " \"the call\""));
        CHECK(contains(message, "missing ranks: 1; waiting ranks: "));
        CHECK(contains(message, "rank 1 (process " + std::to_string(c.pids[stopped]) + ")"));
        CHECK(contains(message, "timed out after 3000 ms"));
      }
      kill(c.pids[stopped], SIGKILL);
      waitpid(c.pids[stopped], nullptr, 0);
      munmap(c.shared, sizeof(Shared));
    }
  }
}

}  // namespace zrt::stop_calls_test
