// Cuts the sums of a collective so that what the peers send fits the staging memory.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "comm/portions.h"

namespace zrt::comm {

// A part of one portion, whose contributions arrive in the same round.
struct Chunk {
  size_t portion;
  int64_t begin, count;  // elements
  uint64_t offset;       // bytes from the start of each peer's staging; a multiple of 16
};
using Round = std::vector<Chunk>;

// The chunks of one reader's sums, in order: each round needs at most `bytes` bytes for each peer. `bytes` must hold an
// element. Every rank can compute the rounds of every other, and so knows what to send it when.
std::vector<Round> rounds_of(std::span<const Portion> portions, size_t element_bytes, uint64_t bytes);

}  // namespace zrt::comm
