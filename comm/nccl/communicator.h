// Communicators over NCCL: one rank per GPU, calls queued on the stream of the calling thread's place. In a build
// without NCCL both functions throw ConfigError.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace zrt::comm {

// Names a new group: one rank makes the text and gives it to all others.
std::string make_nccl_id();

// Rank `rank` of the `size` ranks that pass the same `id`, on the current GPU. Waits for all of them to do so.
// `staging` is memory of that GPU for contributions to sums, at least 16 bytes for each other rank; it must outlive the
// communicator. The more it is, the fewer rounds a large sum takes: a bucket's bytes / size for each other rank make it
// one. Throws ConfigError without NCCL, CommError for an id that is none and for too little staging, core::Error with
// NCCL's reason when the group does not come about.
std::unique_ptr<Communicator> make_nccl_communicator(const std::string& group, const std::string& id, int rank,
                                                     int size, std::byte* staging, uint64_t staging_bytes);

}  // namespace zrt::comm
