// Moves pieces of an extent, as many at a time as fit, and hashes each piece while others are on their way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offload/transfers.h"

namespace zrt::offload {

class PieceMover {
 public:
  // `file` is for messages; `piece` is the size of one, the last of an extent may be smaller.
  PieceMover(std::string file, std::unique_ptr<Transfers> transfers, unsigned depth, uint64_t piece);

  // Both return when nothing is in flight, also by an exception. Throw DataError with the file, the bytes of the piece
  // and what is wrong. `places`, in the file, and `hashes` hold one per piece; write sets hashes and read compares
  // them.
  void write(std::span<const uint64_t> places, const std::byte* from, uint64_t bytes, std::span<uint64_t> hashes);
  void read(std::span<const uint64_t> places, std::byte* to, uint64_t bytes, std::span<const uint64_t> hashes);

  Transfers& transfers() { return *transfers_; }

 private:
  struct Extent {
    bool writes;
    std::span<const uint64_t> places;
    std::byte* data;
    uint64_t bytes;
  };
  struct Slot {
    uint64_t piece = 0;
    uint64_t moved = 0;  // of the piece
    int idle_tries = 0;  // in a row that moved nothing
  };
  template <class Hashed>
  void move(const Extent& extent, const Hashed& hashed);
  template <class Hashed>
  void move_pieces(const Extent& extent, const Hashed& hashed);
  void start(const Extent& extent, unsigned slot);
  bool advance(const Extent& extent, const Transfers::Done& done);
  Transfer piece_of(const Extent& extent, uint64_t piece) const;
  [[noreturn]] void fail(const Extent& extent, uint64_t piece, const std::string& what) const;

  std::string file_;
  std::unique_ptr<Transfers> transfers_;
  uint64_t piece_bytes_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;     // slots
  std::vector<uint64_t> pending_;  // pieces that can be hashed now
};

}  // namespace zrt::offload
