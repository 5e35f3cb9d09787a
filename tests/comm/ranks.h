// N ranks as threads of one test: runs `body(communicator)` on each and returns what each one threw. On a GPU each rank
// has a stream of its own, and what it passes to collectives must be Visible (tests/device.h).
//
// The environment variable ZRT_TEST_GROUP chooses the group under test: "thread" (default), "process" (the protocol of
// ranks in processes of one machine) or "hosts" (the same with ranks on alternating machines; frames through memory
// stand for the network).
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/process/rendezvous.h"
#include "comm/thread_group.h"
#include "tests/device.h"

namespace zrt::comm {

using Group = std::vector<std::unique_ptr<Communicator>>;
using RankBody = std::function<void(Communicator&)>;

inline std::string group_under_test() {
  const char* name = std::getenv("ZRT_TEST_GROUP");
  return name ? name : "thread";
}

// Arenas that all ranks of this test read in membership.
inline SharedArenas& test_arenas() {
  static SharedArenas arenas;
  return arenas;
}

// Passes everything on; tests override what they watch or disturb. Keeps the segment alive that it runs through.
struct WrappedChannel : Channel {
  std::shared_ptr<Segment> segment;
  std::unique_ptr<Channel> channel;
  bool send(FrameKind kind, std::span<const std::byte> bytes) override { return channel->send(kind, bytes); }
  bool flushed() override { return channel->flushed(); }
  std::optional<Frame> receive() override { return channel->receive(); }
  void pop() override { channel->pop(); }
};

// Each rank as if in a process of its own, on machine hosts[rank]; `adjust` may change a rank's membership before it
// is used.
inline Group make_process_group(const std::vector<int>& hosts, std::chrono::milliseconds timeout,
                                const std::function<void(Membership&)>& adjust = {}) {
  const int size = static_cast<int>(hosts.size());
  auto network = std::make_shared<Segment>(size);
  std::vector<std::shared_ptr<Segment>> machines;
  for (int host : hosts) {
    while (machines.size() <= static_cast<size_t>(host)) machines.push_back(std::make_shared<Segment>(size));
  }
  Group group;
  for (int rank = 0; rank < size; ++rank) {
    const int host = hosts[static_cast<size_t>(rank)];
    Membership membership{"dp", rank, timeout, {}, machines[static_cast<size_t>(host)], &test_arenas()};
    for (int peer = 0; peer < size; ++peer) {
      const bool here = hosts[static_cast<size_t>(peer)] == host;
      Peer& made = membership.peers.emplace_back();
      if (here) made.member = peer, made.pid = getpid();
      if (peer == rank) continue;
      auto channel = std::make_unique<WrappedChannel>();
      channel->segment = here ? membership.segment : network;
      channel->channel = channel->segment->channel(rank, peer);
      made.channel = std::move(channel);
    }
    if (adjust) adjust(membership);
    group.push_back(make_communicator(std::make_shared<ProcessRendezvous>(std::move(membership)), rank));
  }
  return group;
}

// Ranks in processes are on the CPU only.
inline Group make_group(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  if (group_under_test() == "thread") return make_thread_group("dp", size, timeout);
  std::vector<int> hosts(static_cast<size_t>(size), 0);
  for (size_t rank = 1; rank < hosts.size(); rank += 2) hosts[rank] = group_under_test() == "hosts" ? 1 : 0;
  return make_process_group(hosts, timeout);
}

// Returns once a rank has begun its call number `count`.
inline void await_call(Communicator& c, size_t count = 1) {
  while (c.flight_records().size() < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Returns what each rank threw: the message, or "" for none.
inline std::vector<std::string> run_catching(Group& group, const RankBody& body) {
  std::vector<std::string> errors(group.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < group.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        const test::OnTestDevice here;
        body(*group[r]);
        test::settle();
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// Throws the first error of any rank.
inline void run_ranks(Group& group, const RankBody& body) {
  for (const std::string& error : run_catching(group, body)) {
    if (!error.empty()) throw std::runtime_error(error);
  }
}

}  // namespace zrt::comm
