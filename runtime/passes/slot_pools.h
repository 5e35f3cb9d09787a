// Buffers that the chunks of a stage of a pipeline share: what each keeps of a microbatch from its forward to its
// backward. While one chunk holds many microbatches another holds few, so that a pool of slots for all of them is
// smaller than a ring for each (for min(w + 1, m v) of all chunks' microbatches, w the forwards of the warm-up).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/program/order.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

class SlotPools {
 public:
  // `list`: what the stage does in a step; without one, or with one chunk in it, nothing is shared.
  SlotPools(ProgramSet& set, std::vector<Work> list, uint32_t microbatches);

  // What a block of the chunk keeps: of each chunk the nth of a kind and size are one buffer, named after all of the
  // blocks. `buffer.slots` is what a ring of the chunk's own would have; `spare` slots stand free when those of a
  // backward are used again, so that what arrives for the next forward can do so before.
  BufferId keep(const std::string& kind, const std::string& block, Buffer buffer, uint32_t chunk, uint32_t spare);
  // Once all have been named: how many slots there are, and who has which.
  void assign();

 private:
  struct Pool {
    BufferId buffer = no_buffer;
    std::vector<uint32_t> chunks;
    uint32_t rings = 0, spare = 0;  // slots of all rings together
  };
  using Alike = std::tuple<std::string, uint64_t, size_t>;  // kind, bytes, the how manieth of its chunk

  void assign(const Pool& pool);

  ProgramSet& set_;
  const std::vector<Work> list_;
  const uint32_t microbatches_;
  std::map<Alike, Pool> pools_;
  std::map<std::tuple<std::string, uint64_t, uint32_t>, size_t> named_;  // of a kind, size and chunk
};

}  // namespace zrt::runtime
