// Buffers that the chunks of a stage of a pipeline share: what each keeps of a microbatch from its forward to its
// backward. While one chunk holds many microbatches another holds few, so that a pool of slots for all of them is
// smaller than a ring for each (for min(w + 1, m v) of all chunks' microbatches, w the forwards of the warm-up).
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/program/order.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// Counts the microbatches that these chunks together have between their forwards and backwards, at most.
uint32_t most_alive(std::span<const Work> list, std::span<const uint32_t> chunks);

class SlotPools {
 public:
  // `list`: what the stage does in a step; without one, or with one chunk in it, nothing is shared.
  SlotPools(ProgramSet& set, std::vector<Work> list, uint32_t microbatches);

  // Returns the buffer for what a block of the chunk keeps. The nth of a kind and size in each chunk are one buffer,
  // named after all of the blocks. `buffer.slots`: of a ring for this chunk alone, `spare` included. `spare`: slots
  // beyond those of microbatches that are alive, for what arrives before its forward.
  BufferId keep(const std::string& kind, const std::string& block, Buffer buffer, uint32_t chunk, uint32_t spare);
  // Decides how many slots there are and who has which, once all have been named.
  void assign();

 private:
  struct Pool {
    BufferId buffer = no_buffer;
    std::vector<uint32_t> chunks;
    uint32_t rings = 0;  // slots that a ring for each chunk would have, together
    uint32_t spare = 0;
  };
  using Alike = std::tuple<std::string, uint64_t, size_t>;  // kind, bytes, its place among those of its chunk

  void assign(const Pool& pool);

  ProgramSet& set_;
  const std::vector<Work> list_;
  const uint32_t microbatches_;
  std::map<Alike, Pool> pools_;
  std::map<std::tuple<std::string, uint64_t, uint32_t>, size_t> named_;  // of a kind, size and chunk
};

}  // namespace zrt::runtime
