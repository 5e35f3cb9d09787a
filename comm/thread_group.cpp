#include "comm/thread_group.h"

#include <fmt/format.h>

#include "comm/thread/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {

std::vector<std::unique_ptr<Communicator>> make_thread_group(const std::string& group, int size,
                                                             std::chrono::milliseconds timeout) {
  if (size < 1) {
    throw core::CommError(fmt::format("group {} cannot have {} ranks; legal is 1 or more", group, size));
  }
  return make_thread_groups(group, one_group(size), size, timeout);
}

std::vector<std::unique_ptr<Communicator>> make_thread_groups(const std::string& name, const Partition& partition,
                                                              int world, std::chrono::milliseconds timeout) {
  check_partition(name, partition, world);
  const auto room = std::make_shared<Room>();
  std::vector<std::unique_ptr<Communicator>> by_rank(static_cast<size_t>(world));
  for (const std::vector<int>& ranks : partition) {
    const int size = static_cast<int>(ranks.size());
    const auto rendezvous = std::make_shared<ThreadRendezvous>(group_name(name, ranks, world), size, timeout, room);
    for (int r = 0; r < size; ++r) {
      by_rank[static_cast<size_t>(ranks[static_cast<size_t>(r)])] = make_communicator(rendezvous, r);
    }
  }
  return by_rank;
}

}  // namespace zrt::comm
