// A call as it travels to the ranks of other processes.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "comm/call.h"
#include "comm/process/arenas.h"

namespace zrt::comm {

// A peer's call. Its pointers are null until `resolve_sources`; targets stay null.
struct RemoteCall {
  CollectiveCall call;
  uint64_t sequence = 0;               // of the peer's call, from 1
  bool shared = false;                 // every source lies in a shared arena
  std::vector<SharedAddress> sources;  // if so: of the ranges, then of the messages sent
};

// Bytes that the peers read of a range.
uint64_t source_bytes(const CollectiveCall& call, const CallRange& range, int size);

// True where all sources of this process's call lie in its shared arenas, so that peers of the machine read them in
// place.
bool sources_shared(const CollectiveCall& call, int size, const SharedArenas& arenas);

std::vector<std::byte> encode(const CollectiveCall& call, uint64_t sequence, int size, const SharedArenas& arenas);
RemoteCall decode(std::span<const std::byte> bytes);  // throws CommError

// Fills in where the sources of process `pid` are mapped here.
void resolve_sources(RemoteCall& remote, int pid, int size, SharedArenas& arenas);

}  // namespace zrt::comm
