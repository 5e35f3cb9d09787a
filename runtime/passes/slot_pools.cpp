#include "runtime/passes/slot_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "core/error.h"

namespace zrt::runtime {
namespace {

bool among(std::span<const uint32_t> chunks, const Work& work) {
  return std::find(chunks.begin(), chunks.end(), static_cast<uint32_t>(work.chunk)) != chunks.end();
}

}  // namespace

uint32_t most_alive(std::span<const Work> list, std::span<const uint32_t> chunks) {
  uint32_t alive = 0, most = 0;
  for (const Work& work : list) {
    if (!among(chunks, work)) continue;
    if (work.kind == WorkKind::forward) most = std::max(most, ++alive);
    if (work.kind == WorkKind::backward) --alive;
  }
  return most;
}

SlotPools::SlotPools(ProgramSet& set, std::vector<Work> list, uint32_t microbatches)
    : set_(set), list_(std::move(list)), microbatches_(microbatches) {}

BufferId SlotPools::keep(const std::string& kind, const std::string& block, Buffer buffer, uint32_t chunk,
                         uint32_t spare) {
  const size_t nth = named_[{kind, buffer.bytes, chunk}]++;
  Pool& pool = pools_[{kind, buffer.bytes, nth}];
  if (pool.buffer == no_buffer) {
    buffer.name = fmt::format("{} of {}", kind, block);
    pool.buffer = set_.add(std::move(buffer));
    pool.rings = set_.buffers[pool.buffer].slots;
  } else {
    set_.buffers[pool.buffer].name += " and " + block;
    pool.rings += buffer.slots;
  }
  pool.chunks.push_back(chunk);
  pool.spare = std::max(pool.spare, spare);
  return pool.buffer;
}

void SlotPools::assign() {
  for (const auto& [alike, pool] : pools_) {
    if (pool.chunks.size() > 1) assign(pool);
  }
}

// A forward takes the slot that has been free the longest, so that turns of a schedule wait for the same ops; what is
// received takes it when it comes.
void SlotPools::assign(const Pool& pool) {
  Buffer& buffer = set_.buffers[pool.buffer];
  buffer.slots = std::min(most_alive(list_, pool.chunks) + pool.spare, pool.rings);
  std::deque<uint32_t> free;
  for (uint32_t slot = 0; slot < buffer.slots; ++slot) free.push_back(slot);
  const uint32_t last = *std::max_element(pool.chunks.begin(), pool.chunks.end());
  buffer.slot_table.assign(size_t{last + 1} * microbatches_, buffer.slots);
  for (const Work& work : list_) {
    if (!among(pool.chunks, work)) continue;
    const auto number = static_cast<size_t>(work.chunk) * microbatches_ + static_cast<size_t>(work.microbatch);
    uint32_t& slot = buffer.slot_table[number];
    if (work.kind == (pool.spare > 0 ? WorkKind::receive_input : WorkKind::forward)) {
      if (free.empty()) {
        throw core::ProgramError(fmt::format("'{}' has {} slots, and more is alive", buffer.name, buffer.slots));
      }
      slot = free.front();
      free.pop_front();
    } else if (work.kind == WorkKind::backward) {
      free.push_back(slot);
    }
  }
}

}  // namespace zrt::runtime
