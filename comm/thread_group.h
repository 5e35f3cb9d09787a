// The `thread` transport: the ranks of a group are threads of one process and read each other's buffers in place.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/partition.h"

namespace zrt::comm {

// Makes the communicators of one group, one per rank. A call that some member does not join within `timeout` ends the
// group: every member throws a CommError that names the operation and the missing ranks, with the flight records.
// Members whose calls differ (kind, ranges, counts, types, root, accumulation and, but for send_recv, label) throw a
// CommError that names both calls.
std::vector<std::unique_ptr<Communicator>> make_thread_group(const std::string& group, int size,
                                                             std::chrono::milliseconds timeout);

// The same for several groups that end together; by rank of the run. Throws CommError for a partition that is none.
std::vector<std::unique_ptr<Communicator>> make_thread_groups(const std::string& name, const Partition& partition,
                                                              int world, std::chrono::milliseconds timeout);

}  // namespace zrt::comm
