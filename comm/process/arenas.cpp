#include "comm/process/arenas.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace zrt::comm {

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
  registry_->arenas[arena->data()] = {arena->mapped_bytes(), ++registry_->made, file};
  return arena;
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
  return SharedAddress{own.id, own.file, own.bytes, offset};
}

const std::byte* SharedArenas::resolve(int pid, const SharedAddress& address, uint64_t bytes) {
  if (address.offset > address.arena_bytes || bytes > address.arena_bytes - address.offset) {
    throw core::CommError(fmt::format("process {} names {} bytes at {} of an arena of {}", pid, bytes, address.offset,
                                      address.arena_bytes));
  }
  const std::lock_guard lock(peers_mutex_);
  auto& mapped = peers_[{pid, address.arena}];
  if (!mapped) mapped = std::make_unique<SharedMemory>(pid, address.file, address.arena_bytes, false);
  return mapped->data() + address.offset;
}

}  // namespace zrt::comm
