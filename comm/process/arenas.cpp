#include "comm/process/arenas.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"

namespace zrt::comm {
namespace {

constexpr int most_peers = 1023;  // of one host
// An arena waits this long for peers that do not look any more, because they ended or hang: then the run is over.
constexpr auto closing_time = std::chrono::seconds(2);

}  // namespace

struct SharedArenas::GpuPage {
  core::GpuHandle handle;
  std::atomic<uint32_t> ending;
  std::atomic<int32_t> peers[most_peers];  // processes that have it open; 0: none

  bool enter(int pid) {
    for (auto& peer : peers) {
      int32_t none = 0;
      if (peer.compare_exchange_strong(none, pid)) return true;
    }
    return false;
  }
  void leave(int pid) {
    for (auto& peer : peers) {
      int32_t own = pid;
      if (peer.compare_exchange_strong(own, 0)) return;
    }
  }
  bool in_use() const {
    return std::any_of(std::begin(peers), std::end(peers), [](const auto& peer) {
      const int32_t pid = peer.load();
      return pid != 0 && kill(pid, 0) == 0;
    });
  }
};

std::unique_ptr<core::Arena> SharedArenas::make(core::Tier tier, uint64_t bytes) {
  const int file = make_memory_file(core::shared_arena_name);
  // Ends with the arena: closes the file and forgets the addresses, which may be given to other memory then.
  auto begin = std::make_shared<const std::byte*>(nullptr);
  std::shared_ptr<void> keep(nullptr, [registry = registry_, begin, file](void*) {
    close(file);
    const std::lock_guard lock(registry->mutex);
    registry->arenas.erase(*begin);
  });
  auto arena = std::make_unique<core::Arena>(tier, bytes, file, keep);
  const std::lock_guard lock(registry_->mutex);
  *begin = arena->data();
  registry_->arenas[arena->data()] = {arena->mapped_bytes(), ++registry_->made, file, false};
  return arena;
}

std::unique_ptr<core::Arena> SharedArenas::make_on_gpu(uint64_t bytes) {
  auto memory = std::make_shared<SharedMemory>("zrt GPU arena", sizeof(GpuPage));
  auto& page = *reinterpret_cast<GpuPage*>(memory->data());  // zeroed, which is a valid state
  auto begin = std::make_shared<const std::byte*>(nullptr);
  std::shared_ptr<void> keep(nullptr, [registry = registry_, begin, memory, &page](void*) {
    if (*begin) end(*registry, page, *begin);
  });
  auto arena = std::make_unique<core::Arena>(core::Tier::device, bytes, core::DeviceKind::cuda, keep);
  page.handle = core::gpu_handle(arena->data());
  const std::lock_guard lock(registry_->mutex);
  *begin = arena->data();
  registry_->arenas[arena->data()] = {arena->mapped_bytes(), ++registry_->made, memory->file(), true};
  return arena;
}

// Waits for peers before the memory goes. It closes ended arenas meanwhile: what this process's streams do may read
// peers' arenas, as theirs may read this one.
void SharedArenas::end(Registry& registry, GpuPage& page, const std::byte* memory) {
  {
    const std::lock_guard lock(registry.mutex);
    registry.arenas.erase(memory);
  }
  page.ending.store(1);
  const auto deadline = std::chrono::steady_clock::now() + closing_time;
  while (page.in_use() && std::chrono::steady_clock::now() < deadline) {
    registry.close_ended();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void SharedArenas::Registry::close_ended() {
  const std::lock_guard lock(peers_mutex);
  for (auto peer = peers.begin(); peer != peers.end();) {
    if (!peer->second.on_gpu) {
      ++peer;
      continue;
    }
    auto& page = *reinterpret_cast<GpuPage*>(peer->second.memory->data());
    if (page.ending.load() == 0) {
      ++peer;
      continue;
    }
    peer->second.on_gpu.reset();
    page.leave(getpid());
    peer = peers.erase(peer);
  }
}

void SharedArenas::close_ended() {
  registry_->close_ended();
}

std::optional<SharedAddress> SharedArenas::locate(const void* data, uint64_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(registry_->mutex);
  auto found = registry_->arenas.upper_bound(first);
  if (found == registry_->arenas.begin()) return std::nullopt;
  --found;
  const auto offset = static_cast<uint64_t>(first - found->first);
  const Own& own = found->second;
  if (offset > own.bytes || bytes > own.bytes - offset) return std::nullopt;
  return SharedAddress{own.id, own.file, own.bytes, offset, own.on_gpu ? 1u : 0u};
}

void SharedArenas::open(Opened& opened, int pid, const SharedAddress& address) {
  if (address.on_gpu == 0) {
    opened.memory = std::make_unique<SharedMemory>(pid, address.file, address.arena_bytes, false);
    return;
  }
  auto memory = std::make_unique<SharedMemory>(pid, address.file, sizeof(GpuPage), true);
  auto& page = *reinterpret_cast<GpuPage*>(memory->data());
  if (!page.enter(getpid())) {
    throw core::CommError(
        fmt::format("the memory of process {}'s GPU is open in {} processes already", pid, most_peers));
  }
  try {
    opened.on_gpu = std::make_unique<core::PeerMemory>(page.handle);
  } catch (const core::Error& error) {
    page.leave(getpid());
    throw core::CommError(fmt::format(
        "the memory of process {}'s GPU cannot be opened: {}. Processes of one host must see each other's GPUs and "
        "share namespaces of processes and IPC, and their GPUs must reach each other's memory (nvidia-smi topo -p2p "
        "r); "
        "else let them be threads of one process (zrt train --ranks N)",
        pid, error.what()));
  }
  opened.memory = std::move(memory);
}

const std::byte* SharedArenas::resolve(int pid, const SharedAddress& address, uint64_t bytes) {
  if (address.offset > address.arena_bytes || bytes > address.arena_bytes - address.offset) {
    throw core::CommError(fmt::format("process {} names {} bytes at {} of an arena of {}", pid, bytes, address.offset,
                                      address.arena_bytes));
  }
  if (address.on_gpu != 0 && pid == getpid()) {  // a process cannot open its own
    const std::lock_guard lock(registry_->mutex);
    for (const auto& [begin, own] : registry_->arenas) {
      if (own.id == address.arena) return begin + address.offset;
    }
    throw core::CommError(fmt::format("arena {} of this process has ended", address.arena));
  }
  const std::lock_guard lock(registry_->peers_mutex);
  auto& opened = registry_->peers[{pid, address.arena}];
  if (!opened.memory) open(opened, pid, address);
  return (opened.on_gpu ? opened.on_gpu->data() : opened.memory->data()) + address.offset;
}

}  // namespace zrt::comm
