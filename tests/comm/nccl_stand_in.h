// A stand-in for NCCL that connects threads through host memory.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "comm/nccl/rendezvous.h"
#include "emulator/ring_sum.h"
#include "ranks.h"

// Messages on their way, by purpose, sender and receiver.
struct Post {
  using Key = std::tuple<int, int, int>;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, std::deque<std::vector<std::byte>>> messages;
  int size = 0, aborted = 0, destroyed = 0;
  ncclResult_t trouble = ncclSuccess;
  // A vote is under way, and no message sent, for so many questions to come.
  int slow_votes = 0;
  std::atomic<int> under_way = 0;
};

// NCCL leaves this type to whoever implements it.
struct ncclComm {
  Post* post;
  int rank;
};

namespace zrt::comm::nccl_stand_in {

using namespace std::chrono_literals;
enum Purpose { message, gather, cast, vote, sum };

// Calls between group_start and group_end: all that they send goes out before any waits for what it receives.
inline thread_local int depth = 0;
inline thread_local std::vector<std::function<ncclResult_t()>> waits;

inline void put(ncclComm_t c, int purpose, int to, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(c->post->mutex);
  c->post->messages[{purpose, c->rank, to}].emplace_back(begin, begin + bytes);
  c->post->arrived.notify_all();
}

// A message must have the size that is asked for.
inline ncclResult_t take(ncclComm_t c, int purpose, int from, void* data, size_t bytes) {
  const auto wait = [=] {
    std::unique_lock lock(c->post->mutex);
    auto& queue = c->post->messages[{purpose, from, c->rank}];
    if (!c->post->arrived.wait_for(lock, 300s, [&] { return !queue.empty(); })) return ncclSystemError;
    if (queue.front().size() != bytes) return ncclInvalidArgument;
    std::memcpy(data, queue.front().data(), bytes);
    queue.pop_front();
    return ncclSuccess;
  };
  if (depth == 0) return wait();
  waits.emplace_back(wait);
  return ncclSuccess;
}

inline ncclResult_t group_start() {
  ++depth;
  return ncclSuccess;
}
inline ncclResult_t group_end() {
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& wait : waits) {
    if (result == ncclSuccess) result = wait();
  }
  waits.clear();
  return result;
}
inline ncclResult_t send(const void* data, size_t count, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  put(c, message, peer, data, count);
  return ncclSuccess;
}
inline ncclResult_t receive(void* data, size_t count, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  return take(c, message, peer, data, count);
}
inline ncclResult_t all_gather(const void* source, void* target, size_t count, ncclDataType_t, ncclComm_t c,
                               cudaStream_t) {
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < c->post->size; ++r) put(c, gather, r, source, count);
  for (int r = 0; r < c->post->size && result == ncclSuccess; ++r) {
    result = take(c, gather, r, static_cast<std::byte*>(target) + static_cast<size_t>(r) * count, count);
  }
  return result;
}
inline ncclResult_t broadcast(const void* source, void* target, size_t count, ncclDataType_t, int root, ncclComm_t c,
                              cudaStream_t) {
  for (int r = 0; c->rank == root && r < c->post->size; ++r) put(c, cast, r, source, count);
  return take(c, cast, root, target, count);
}
// Barriers reduce one byte, whose result does not matter.
inline ncclResult_t all_reduce(const void* source, void*, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t c,
                               cudaStream_t) {
  if (c->post->slow_votes > 0) {
    c->post->under_way = c->post->slow_votes;
    return ncclInProgress;
  }
  std::byte other{};
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < c->post->size; ++r) put(c, vote, r, source, count);
  for (int r = 0; r < c->post->size && result == ncclSuccess; ++r) result = take(c, vote, r, &other, count);
  return result;
}

// The root receives from all, itself included, and adds them up behind that.
inline ncclResult_t reduce(const void* source, void* target, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           int root, ncclComm_t c, cudaStream_t) {
  if (op != ncclSum) return ncclInvalidArgument;
  const size_t bytes = count * emulator::nccl_size(type);
  put(c, sum, root, source, bytes);
  if (c->rank != root) return ncclSuccess;
  const auto ranks = static_cast<size_t>(c->post->size);
  const auto all = std::make_shared<std::vector<std::byte>>(bytes * ranks);
  ncclResult_t result = ncclSuccess;
  std::vector<const std::byte*> by_rank;
  for (size_t r = 0; r < ranks && result == ncclSuccess; ++r) {
    std::byte* const place = all->data() + r * bytes;
    by_rank.push_back(place);
    result = take(c, sum, static_cast<int>(r), place, bytes);
  }
  const auto add = [=] {
    emulator::ring_sum(type, count, by_rank, root, static_cast<std::byte*>(target));
    return ncclSuccess;
  };
  if (depth == 0 && result == ncclSuccess) return add();
  waits.emplace_back([=, kept = all] { return add(); });
  return result;
}

inline const NcclLibrary& stand_in() {
  static const NcclLibrary library{
      .get_unique_id = nullptr,
      .init_rank = nullptr,
      .finalize = [](ncclComm_t) { return ncclSuccess; },
      .destroy =
          [](ncclComm_t c) {
            ++c->post->destroyed;
            return ncclSuccess;
          },
      .abort =
          [](ncclComm_t c) {
            ++c->post->aborted;
            return ncclSuccess;
          },
      .async_error =
          [](ncclComm_t c, ncclResult_t* error) {
            *error = c->post->under_way > 0 ? ncclInProgress : c->post->trouble;
            if (c->post->under_way > 0) --c->post->under_way;
            return ncclSuccess;
          },
      .error_string = [](ncclResult_t code) { return code == ncclRemoteError ? "a peer is gone" : "an error"; },
      .group_start = group_start,
      .group_end = group_end,
      .send = send,
      .receive = receive,
      .all_gather = all_gather,
      .broadcast = broadcast,
      .all_reduce = all_reduce,
      .reduce = reduce,
      .stream = [] { return cudaStream_t{}; }};
  return library;
}

// The hosts of ranks that take turns on two hosts.
inline std::vector<int> alternating(int size) {
  std::vector<int> hosts(static_cast<size_t>(size));
  for (size_t r = 0; r < hosts.size(); ++r) hosts[r] = static_cast<int>(r % 2);
  return hosts;
}

// A group over the stand-in and what it needs.
struct StandInGroup {
  Post post;
  std::vector<ncclComm> ends;
  std::vector<std::vector<std::byte>> staging;
  Group group;
  StandInGroup(int size, size_t staging_for_each) : StandInGroup(alternating(size), staging_for_each) {}
  StandInGroup(const std::vector<int>& hosts, size_t staging_for_each, std::optional<bool> by_line = {},
               bool fast_sums = false)
      : staging(hosts.size()) {
    const int size = static_cast<int>(hosts.size());
    post.size = size;
    for (int r = 0; r < size; ++r) ends.push_back({&post, r});
    for (int r = 0; r < size; ++r) {
      auto& own = staging[static_cast<size_t>(r)];
      own.resize(staging_for_each * static_cast<size_t>(size - 1));
      group.push_back(make_communicator(
          std::make_shared<NcclRendezvous>(stand_in(), &ends[static_cast<size_t>(r)],
                                           NcclSeat{"dp", r, hosts, own.data(), own.size(), 60s, by_line, fast_sums}),
          r));
    }
  }
};

}  // namespace zrt::comm::nccl_stand_in
