// The arenas of this process that its peers map, and the peers' arenas mapped here. One for each process.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/process/shared_memory.h"
#include "core/arena.h"

namespace zrt::comm {

// Where a buffer lies, said to a peer on the same machine.
struct SharedAddress {
  uint32_t arena = 0;  // never reused in a process
  int32_t file = -1;
  uint64_t arena_bytes = 0, offset = 0;
};

class SharedArenas {
 public:
  std::unique_ptr<core::Arena> make(core::Tier tier, uint64_t bytes);

  // None when the bytes do not lie in one living arena of this process.
  std::optional<SharedAddress> locate(const void* data, uint64_t bytes) const;

  // Where `bytes` bytes of a peer's arena are mapped here, read-only; maps the arena on first use. Throws CommError.
  const std::byte* resolve(int pid, const SharedAddress& address, uint64_t bytes);

 private:
  struct Own {
    uint64_t bytes;
    uint32_t id;
    int file;
  };
  // Outlives this object where an arena does.
  struct Registry {
    std::mutex mutex;
    std::map<const std::byte*, Own> arenas;  // by first byte
    uint32_t made = 0;
  };
  std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  std::mutex peers_mutex_;
  std::map<std::pair<int, uint32_t>, std::unique_ptr<SharedMemory>> peers_;  // by process and arena
};

}  // namespace zrt::comm
