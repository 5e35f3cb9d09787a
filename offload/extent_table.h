// Maps the pieces of a BlockFile's extents to places in the file. Each piece has a place of its own in the file. A
// piece may instead be an alias of another extent's piece with the same number: it has the same bytes, and its own
// place stays empty until it is written. Where one is written that has aliases, it leaves its place to one of them and
// takes that one's empty place. So nothing is copied and no room is needed, in whatever order pieces are written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace zrt::offload {

class ExtentTable {
 public:
  // One entry per piece.
  struct Extent {
    uint64_t bytes = 0;
    bool written = false;          // it can be read
    bool bound = false;            // a piece is or was an alias, or had one: it keeps its bounds
    std::vector<uint64_t> own;     // the place that it has to itself
    std::vector<uint64_t> at;      // the place of its bytes: its own, or another piece's
    std::vector<uint64_t> hashes;  // of its bytes
  };

  explicit ExtentTable(uint64_t piece) : piece_(piece) {}

  // The extent for writing: no alias any more, and with nobody else's bytes in its own places. What it overlaps is
  // gone. Throws core::ProgramError where that is bound.
  Extent& take(uint64_t offset, uint64_t bytes);
  // Makes pieces [first, last) of one extent aliases of those of another, of the same size. Both are there.
  void share(uint64_t offset, uint64_t of, size_t first, size_t last);
  const Extent* find(uint64_t offset) const;  // null where none begins

 private:
  struct Piece {
    uint64_t extent;  // its offset
    size_t number;
    bool operator==(const Piece&) const = default;
  };
  void detach(uint64_t offset, Extent& extent);

  const uint64_t piece_;                            // bytes
  std::map<uint64_t, Extent> extents_;              // by offset, without overlap
  std::map<uint64_t, std::vector<Piece>> aliases_;  // by place: those of the piece that owns it
};

}  // namespace zrt::offload
