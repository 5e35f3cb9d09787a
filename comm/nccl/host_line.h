// Sums over the ranks of several hosts, in rank order, along a line: each host adds its ranks to the partial sum (fp32)
// of the host before, and the last one sends the result to the rank that asked for it. The bits are those of one sum;
// between hosts it moves a partial for each host, where an all-to-all moves every rank's contribution.
//
// Column g is the g-th ranks of all hosts. It sums what its own ranks ask for, a round at a time, in ticks that are
// exchanges of all ranks. In tick t the g-th rank of host h
//   - receives the partial of round t − h from host h − 1, and the contributions of its own host's ranks to it,
//   - sends on what it summed in tick t − 1: a partial to host h + 1, or, on the last host, the result to its rank,
// and then sums round t − h. A tick's messages are one call of NCCL: it waits for peers that come to the same tick
// alone, so ticks cannot wait for each other in a circle.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/nccl/rounds.h"
#include "core/dtype.h"

namespace zrt::comm {

struct HostLine {
  static constexpr int most_direct = 256;  // ranks of an all-to-all: cuda::most_sources
  int hosts = 1, per_host = 1;
  int size() const { return hosts * per_host; }
  int host(int rank) const { return rank / per_host; }
  int column(int rank) const { return rank % per_host; }
  int rank(int host, int column) const { return host * per_host + column; }

  // Exchanges one behind the other, and what the rank that receives most receives in the time that they take.
  struct Way {
    uint64_t ticks = 0, bytes_inside = 0, bytes_between = 0;
  };
  // One call's sums of `elements` elements in all, with so much staging on each rank.
  Way along(uint64_t elements, core::DType from, core::DType to, uint64_t staging) const;
  Way all_to_all(uint64_t elements, core::DType from, uint64_t staging) const;
  // True where sums go along the line: it saves 512 KiB between hosts for each tick that it takes more, as much as
  // a link of 200 Gb/s carries in 20 µs. Groups of more than 256 ranks, which no kernel sums at once, always do.
  bool pays(uint64_t elements, core::DType from, core::DType to, uint64_t staging) const;
};

// None unless at least two hosts hold equally many ranks, more than one, that follow one another. By rank of a group
// its host.
std::optional<HostLine> host_line(std::span<const int> hosts);

// The bytes of staging are: one part for each other rank of the host, then a partial that comes, a sum that goes, and a
// result that comes, each as large as such a part in fp32. Returns the size of a part, a multiple of 16; 0: too little.
uint64_t part_bytes(const HostLine& line, uint64_t staging, size_t element_bytes);

class LineSchedule {
 public:
  // `rounds` of all ranks' sums, by rank, must live as long as this.
  LineSchedule(const HostLine& line, std::span<const std::vector<Round>> rounds);

  struct Item {
    int reader = 0;  // the rank that the sum is for
    const Round* round = nullptr;
    uint64_t elements() const;
    uint64_t extent(size_t element_bytes) const;  // elements with the gaps between chunks
  };
  int64_t ticks() const { return ticks_; }
  // Null where column `column` has no such round.
  const Item* at(int column, int64_t round) const;

 private:
  std::vector<std::vector<Item>> columns_;  // the hosts take turns, so that results spread over their links
  int64_t ticks_ = 0;
};

}  // namespace zrt::comm
