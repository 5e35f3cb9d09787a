#include "offload/block_file.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ledger.h"
#include "offload/extent_table.h"
#include "offload/pieces.h"
#include "offload/scratch_file.h"

namespace zrt::offload {
namespace {

using Clock = std::chrono::steady_clock;

BlockFileOptions checked(BlockFileOptions options) {
  const bool fits = options.depth >= 1 && options.depth <= 4096 && options.piece >= block_alignment &&
                    options.piece <= (1u << 30) && options.piece % block_alignment == 0 &&
                    options.bytes % block_alignment == 0 && options.rank >= 0;
  if (!fits) {
    throw core::ProgramError(
        fmt::format("a file of {} bytes in pieces of {}, {} in flight, of rank {}: legal are "
                    "multiples of {} bytes, pieces up to 1 GiB and 1 to 4096 in flight",
                    options.bytes, options.piece, options.depth, options.rank, block_alignment));
  }
  if (!options.warn) options.warn = [](const std::string&) {};
  return options;
}

std::unique_ptr<Transfers> make_transfers(const ScratchFile& file, const BlockFileOptions& options) {
  int error = 0;
  auto transfers = make_uring_transfers(file.descriptor(), options.depth, error);
  if (transfers) return transfers;
  const std::string path = file.path().string();
  // ENOMEM: kernels before 5.12 count the ring itself as locked memory.
  if (error != ENOSYS && error != EPERM && error != EACCES && error != ENOMEM) {
    throw core::DataError(fmt::format("{}: io_uring cannot be set up: {}", path, std::strerror(error)));
  }
  options.warn(fmt::format("{}: this system does not permit io_uring ({}); one transfer at a time is slower", path,
                           std::strerror(error)));
  return make_plain_transfers(file.descriptor());
}

}  // namespace

struct BlockFile::State {
  using Extent = ExtentTable::Extent;

  explicit State(const BlockFileOptions& given)
      : options(checked(given)),
        file(options.folder / fmt::format("rank-{}.zrt", options.rank), options.bytes, options.warn),
        mover(file.path().string(), make_transfers(file, options), options.depth, options.piece),
        extents(options.piece) {}

  void check(uint64_t offset, const std::byte* data, uint64_t bytes) const {
    const bool aligned = (offset | bytes | reinterpret_cast<uintptr_t>(data)) % block_alignment == 0;
    if (aligned && bytes <= options.bytes && offset <= options.bytes - bytes) return;
    throw core::ProgramError(
        fmt::format("{}: {} bytes at {} to or from address {}: legal are multiples of {} within {}",
                    file.path().string(), bytes, offset, fmt::ptr(data), block_alignment, options.bytes));
  }

  const Extent& written(uint64_t offset, uint64_t bytes) const {
    const Extent* extent = extents.find(offset);
    if (extent && !extent->written) extent = nullptr;
    if (extent && extent->bytes == bytes) return *extent;
    throw core::DataError(fmt::format("{}: {} bytes at {} cannot be read: {}", file.path().string(), bytes, offset,
                                      extent ? fmt::format("the extent there was written with {}", extent->bytes)
                                             : std::string("no extent was written there, or writing it failed")));
  }

  // Pieces [first, last) of an extent, which begins at `from` in memory.
  void write_pieces(Extent& extent, const std::byte* from, uint64_t first, uint64_t last) {
    if (first == last) return;
    const uint64_t begin = first * options.piece, count = std::min(last * options.piece, extent.bytes) - begin;
    const std::span places(extent.own), hashes(extent.hashes);
    mover.write(places.subspan(first, last - first), from + begin, count, hashes.subspan(first, last - first));
    written_bytes += count;
  }

  // Throws ProgramError unless they are whole pieces of an extent of so many bytes, in order.
  void check_parts(std::span<const ExtentPart> parts, uint64_t bytes) const {
    uint64_t end = 0;
    for (const ExtentPart& part : parts) {
      const bool whole = part.begin % options.piece == 0 && (part.end % options.piece == 0 || part.end == bytes);
      if (!whole || part.begin < end || part.end <= part.begin || part.end > bytes) {
        throw core::ProgramError(
            fmt::format("{}: bytes {} to {} of an extent of {} cannot be an alias: legal are whole pieces of {} bytes, "
                        "in order",
                        file.path().string(), part.begin, part.end, bytes, options.piece));
      }
      end = part.end;
    }
  }

  void pace(Clock::time_point begin, uint64_t bytes) const {
    if (options.bytes_per_second <= 0) return;
    const std::chrono::duration<double> least(static_cast<double>(bytes) / options.bytes_per_second);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(least));
  }

  BlockFileOptions options;
  ScratchFile file;
  PieceMover mover;
  ExtentTable extents;
  std::vector<Memory> memory;  // pinned
  bool warned_of_memory = false;
  uint64_t highest = 0, read = 0, written_bytes = 0;
};

BlockFile::BlockFile(const BlockFileOptions& options) : state_(std::make_unique<State>(options)) {}
BlockFile::~BlockFile() = default;

void BlockFile::register_memory(std::byte* data, uint64_t bytes) {
  std::vector<Memory>& memory = state_->memory;
  memory.push_back({data, bytes});
  const int error = state_->mover.transfers().pin(memory);
  if (error == 0) return;
  memory.pop_back();
  if (state_->mover.transfers().pin(memory) != 0) memory.clear();
  if (std::exchange(state_->warned_of_memory, true)) return;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string allowed =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : core::format_bytes(uint64_t{limit.rlim_cur});
  state_->options.warn(
      fmt::format("{}: the kernel does not pin {} of memory for transfers ({}; the limit for locked memory is {}, "
                  "ulimit -l); they work without, at the cost of processor time",
                  state_->file.path().string(), core::format_bytes(bytes), std::strerror(error), allowed));
}

void BlockFile::write(uint64_t offset, const std::byte* from, uint64_t bytes) {
  write_alias(offset, from, bytes, offset, {});
}

void BlockFile::write_alias(uint64_t offset, const std::byte* from, uint64_t bytes, uint64_t of,
                            std::span<const ExtentPart> parts) {
  State& s = *state_;
  const uint64_t piece = s.options.piece, before = s.written_bytes;
  s.check(offset, from, bytes);
  s.check_parts(parts, bytes);
  if (bytes == 0) return;
  const auto begin = Clock::now();
  s.file.check();
  State::Extent& extent = s.extents.take(offset, bytes);
  if (!parts.empty()) s.written(of, bytes);
  uint64_t next = 0;
  for (const ExtentPart& part : parts) {
    s.write_pieces(extent, from, next, part.begin / piece);
    next = (part.end + piece - 1) / piece;
  }
  s.write_pieces(extent, from, next, extent.own.size());
  for (const ExtentPart& part : parts) {
    s.extents.share(offset, of, part.begin / piece, (part.end + piece - 1) / piece);
  }
  extent.written = true;
  s.highest = std::max(s.highest, offset + bytes);
  s.pace(begin, s.written_bytes - before);
}

bool BlockFile::space_taken() const {
  return state_->file.space_taken();
}

void BlockFile::read(uint64_t offset, std::byte* to, uint64_t bytes) {
  read_part(offset, bytes, 0, to, bytes);
}

void BlockFile::read_part(uint64_t offset, uint64_t bytes, uint64_t skip, std::byte* to, uint64_t count) {
  State& s = *state_;
  const uint64_t piece = s.options.piece;
  s.check(offset, to, bytes);
  const bool within = skip <= bytes && count <= bytes - skip && skip % piece == 0;
  if (!within || (count % piece != 0 && skip + count != bytes)) {
    throw core::ProgramError(fmt::format("{}: bytes {} to {} of an extent of {}: legal are whole pieces of {} bytes",
                                         s.file.path().string(), skip, skip + count, bytes, piece));
  }
  if (count == 0) return;
  const auto begin = Clock::now();
  s.file.check();
  const State::Extent& extent = s.written(offset, bytes);
  const std::span places(extent.at), hashes(extent.hashes);
  s.mover.read(places.subspan(skip / piece), to, count, hashes.subspan(skip / piece));
  s.read += count;
  s.pace(begin, count);
}

bool BlockFile::is_alias(uint64_t offset, uint64_t bytes, uint64_t skip, uint64_t count) const {
  const State::Extent* extent = state_->extents.find(offset);
  if (!extent || !extent->written || extent->bytes != bytes || skip + count > bytes) return false;
  const uint64_t piece = state_->options.piece;
  for (uint64_t i = skip / piece; i * piece < skip + count; ++i) {
    if (extent->at[i] == extent->own[i]) return false;
  }
  return true;
}

uint64_t BlockFile::piece() const {
  return state_->options.piece;
}

uint64_t BlockFile::highest_written() const {
  return state_->highest;
}
uint64_t BlockFile::bytes_read() const {
  return state_->read;
}
uint64_t BlockFile::bytes_written() const {
  return state_->written_bytes;
}
const std::filesystem::path& BlockFile::path() const {
  return state_->file.path();
}

}  // namespace zrt::offload
