#include "offload/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "offload/block_file.h"
#include "offload/io_reason.h"

namespace zrt::offload {
namespace {

constexpr int most_idle_tries = 200;  // of 1 ms

}  // namespace

PieceMover::PieceMover(std::string file, std::unique_ptr<Transfers> transfers, unsigned depth, uint64_t piece)
    : file_(std::move(file)), transfers_(std::move(transfers)), piece_bytes_(piece), slots_(depth) {
  free_.reserve(depth);
  pending_.reserve(depth);
}

void PieceMover::write(std::span<const uint64_t> places, const std::byte* from, uint64_t bytes,
                       std::span<uint64_t> hashes) {
  const Extent extent{true, places, const_cast<std::byte*>(from), bytes};
  move(extent, [&](uint64_t piece) {
    const Transfer t = piece_of(extent, piece);
    hashes[piece] = core::xxh3(t.data, t.bytes);
  });
}

void PieceMover::read(std::span<const uint64_t> places, std::byte* to, uint64_t bytes,
                      std::span<const uint64_t> hashes) {
  const Extent extent{false, places, to, bytes};
  move(extent, [&](uint64_t piece) {
    const Transfer t = piece_of(extent, piece);
    const uint64_t found = core::xxh3(t.data, t.bytes);
    if (found == hashes[piece]) return;
    fail(extent, piece,
         fmt::format("what comes back is not what was written (xxh3 {:016x} instead of {:016x}): the disk or another "
                     "program changed it; resume from a checkpoint",
                     found, hashes[piece]));
  });
}

template <class Hashed>
void PieceMover::move(const Extent& extent, const Hashed& hashed) {
  free_.clear();
  pending_.clear();
  for (unsigned slot = static_cast<unsigned>(slots_.size()); slot-- > 0;) free_.push_back(slot);
  try {
    move_pieces(extent, hashed);
  } catch (...) {
    // The kernel still uses the caller's memory.
    try {
      while (free_.size() < slots_.size()) free_.push_back(transfers_->wait().slot);
    } catch (const core::DataError&) {  // nothing can be waited for; the first error says why
    }
    throw;
  }
}

// New transfers are begun before pieces are hashed, so that the disk never waits for the processor.
template <class Hashed>
void PieceMover::move_pieces(const Extent& extent, const Hashed& hashed) {
  const uint64_t pieces = (extent.bytes + piece_bytes_ - 1) / piece_bytes_;
  for (uint64_t next = 0; next < pieces || free_.size() < slots_.size();) {
    for (; next < pieces && !free_.empty(); ++next) {
      const unsigned slot = free_.back();
      slots_[slot] = {next, 0, 0};
      start(extent, slot);
      free_.pop_back();
      if (extent.writes) pending_.push_back(next);
    }
    while (!pending_.empty()) {
      const uint64_t piece = pending_.back();
      pending_.pop_back();
      hashed(piece);
    }
    const Transfers::Done done = transfers_->wait();
    free_.push_back(done.slot);  // advance() may throw, and this one is no longer in flight
    if (!advance(extent, done)) {
      start(extent, done.slot);
      free_.pop_back();
    } else if (!extent.writes) {
      pending_.push_back(slots_[done.slot].piece);
    }
  }
  for (const uint64_t piece : pending_) hashed(piece);
}

Transfer PieceMover::piece_of(const Extent& extent, uint64_t piece) const {
  const uint64_t begin = piece * piece_bytes_;
  return {extent.writes, extent.places[piece], extent.data + begin, std::min(piece_bytes_, extent.bytes - begin)};
}

void PieceMover::start(const Extent& extent, unsigned slot) {
  Transfer t = piece_of(extent, slots_[slot].piece);
  const uint64_t moved = slots_[slot].moved;
  t.offset += moved, t.data += moved, t.bytes -= moved;
  transfers_->start(slot, t);
}

// True once the piece is complete. Else it moves on from the last multiple of the alignment, which direct I/O needs.
bool PieceMover::advance(const Extent& extent, const Transfers::Done& done) {
  Slot& slot = slots_[done.slot];
  const bool again = done.result == -EINTR || done.result == -EAGAIN;
  if (done.result < 0 && !again) fail(extent, slot.piece, io_reason(static_cast<int>(-done.result)));
  const uint64_t whole = piece_of(extent, slot.piece).bytes;
  const uint64_t moved = slot.moved + (again ? 0 : static_cast<uint64_t>(done.result));
  if (moved == whole) return true;
  const uint64_t aligned = moved / block_alignment * block_alignment;
  slot.idle_tries = aligned > slot.moved ? 0 : slot.idle_tries + 1;
  slot.moved = aligned;
  if (slot.idle_tries > most_idle_tries) {
    fail(extent, slot.piece,
         again ? io_reason(static_cast<int>(-done.result))
               : fmt::format("{} of {} bytes were moved and then no more, as at the end of a file", moved, whole));
  }
  if (slot.idle_tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return false;
}

void PieceMover::fail(const Extent& extent, uint64_t piece, const std::string& what) const {
  const Transfer t = piece_of(extent, piece);
  throw core::DataError(fmt::format("{}: {} bytes at {} cannot be {}: {}", file_, t.bytes, t.offset,
                                    extent.writes ? "written" : "read", what));
}

}  // namespace zrt::offload
