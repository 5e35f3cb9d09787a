// The arenas of this process that its peers map, and the peers' arenas mapped here. One for each process.
//
// Peers map an arena of the host by its file and one of a GPU by its handle. Memory of a GPU must stay as long as a
// peer has it open. So peers note in a shared page of the arena that they have, an arena that ends says so there, and
// waits until they have closed it; all look for that whenever they wait for each other.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/process/shared_memory.h"
#include "core/arena.h"
#include "core/peer_memory.h"

namespace zrt::comm {

// Tells a peer on the same machine where a buffer lies.
struct SharedAddress {
  uint32_t arena = 0;  // never reused in a process
  int32_t file = -1;   // of the arena; of its page where it is a GPU's
  uint64_t arena_bytes = 0, offset = 0;
  uint64_t on_gpu = 0;
};

class SharedArenas {
 public:
  std::unique_ptr<core::Arena> make(core::Tier tier, uint64_t bytes);
  // Memory of the calling thread's GPU.
  std::unique_ptr<core::Arena> make_on_gpu(uint64_t bytes);

  // None when the bytes do not lie in one living arena of this process.
  std::optional<SharedAddress> locate(const void* data, uint64_t bytes) const;

  // Returns the address at which this process can read `bytes` bytes of a peer's arena. Maps the arena on first use,
  // that of a GPU for the calling thread's GPU. Throws CommError.
  const std::byte* resolve(int pid, const SharedAddress& address, uint64_t bytes);

  // Closes the peers' GPU arenas that are about to end. Their work of this process has been queued, and is waited for.
  void close_ended();

 private:
  struct GpuPage;  // shared by the processes that have an arena of a GPU open
  struct Own {
    uint64_t bytes;
    uint32_t id;
    int file;
    bool on_gpu;
  };
  struct Opened {
    std::unique_ptr<SharedMemory> memory;  // of the host; of a GPU its page
    std::unique_ptr<core::PeerMemory> on_gpu;
  };
  // Outlives this object where an arena does.
  struct Registry {
    std::mutex mutex;
    std::map<const std::byte*, Own> arenas;  // by first byte
    uint32_t made = 0;
    std::mutex peers_mutex;
    std::map<std::pair<int, uint32_t>, Opened> peers;  // by process and arena

    void close_ended();
  };
  static void end(Registry& registry, GpuPage& page, const std::byte* memory);
  void open(Opened& opened, int pid, const SharedAddress& address);

  std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

}  // namespace zrt::comm
