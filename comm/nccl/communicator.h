// Communicators over NCCL: one rank per GPU, calls queued on the stream of the calling thread's place. In a build
// without NCCL all functions but add_nccl throw ConfigError.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/seat.h"

namespace zrt::comm {

// Names a new group: one rank makes the text and gives it to all others.
std::string make_nccl_id();

// A rank of those that pass the same `id`, on the current GPU; waits for all of them to do so. Throws ConfigError
// without NCCL, CommError for an id that is none, for too little staging and when ranks do not come within the
// time-out, core::Error with NCCL's reason when the group does not come about.
std::unique_ptr<Communicator> make_nccl_communicator(const std::string& id, NcclSeat seat);

// Throws ConfigError where NCCL cannot be loaded.
void require_nccl();

// `host`, but that what a GPU's stream calls goes through NCCL. In a build without NCCL `host` as it is. `hosts` as
// and `fast_sums` as in NcclSeat. A call that stands still on the GPU for `timeout` ends the group, and an error that
// NCCL meets.
std::unique_ptr<Communicator> add_nccl(std::unique_ptr<Communicator> host, std::vector<int> hosts,
                                       std::chrono::milliseconds timeout, Neighbours neighbours = {},
                                       bool fast_sums = false);

}  // namespace zrt::comm
