#include "offload/block_file.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ledger.h"
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
  struct Extent {
    uint64_t bytes = 0;
    std::vector<uint64_t> hashes;  // one per piece
  };
  using Extents = std::map<uint64_t, Extent>;  // by offset, without overlap

  explicit State(const BlockFileOptions& given)
      : options(checked(given)),
        file(options.folder / fmt::format("rank-{}.zrt", options.rank), options.bytes, options.warn),
        mover(file.path().string(), make_transfers(file, options), options.depth, options.piece) {}

  void check(uint64_t offset, const std::byte* data, uint64_t bytes) const {
    const bool aligned = (offset | bytes | reinterpret_cast<uintptr_t>(data)) % block_alignment == 0;
    if (aligned && bytes <= options.bytes && offset <= options.bytes - bytes) return;
    throw core::ProgramError(
        fmt::format("{}: {} bytes at {} to or from address {}: legal are multiples of {} within {}",
                    file.path().string(), bytes, offset, fmt::ptr(data), block_alignment, options.bytes));
  }

  // Takes out what these bytes held; its memory for hashes is used again by the extent that replaces it.
  Extent forget(uint64_t offset, uint64_t bytes) {
    auto at = extents.upper_bound(offset);
    if (at != extents.begin() && std::prev(at)->first + std::prev(at)->second.bytes > offset) --at;
    Extent taken;
    while (at != extents.end() && at->first < offset + bytes) {
      taken = std::move(at->second);
      at = extents.erase(at);
    }
    return taken;
  }

  const Extent& written(uint64_t offset, uint64_t bytes) const {
    const auto at = extents.find(offset);
    if (at != extents.end() && at->second.bytes == bytes) return at->second;
    throw core::DataError(fmt::format("{}: {} bytes at {} cannot be read: {}", file.path().string(), bytes, offset,
                                      at == extents.end()
                                          ? std::string("no extent was written there, or writing it failed")
                                          : fmt::format("the extent there was written with {}", at->second.bytes)));
  }

  void pace(Clock::time_point begin, uint64_t bytes) const {
    if (options.bytes_per_second <= 0) return;
    const std::chrono::duration<double> least(static_cast<double>(bytes) / options.bytes_per_second);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(least));
  }

  BlockFileOptions options;
  ScratchFile file;
  PieceMover mover;
  Extents extents;
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
  State& s = *state_;
  s.check(offset, from, bytes);
  if (bytes == 0) return;
  const auto begin = Clock::now();
  s.file.check();
  State::Extent extent = s.forget(offset, bytes);
  s.mover.write(offset, from, bytes, extent.hashes);
  extent.bytes = bytes;
  s.extents[offset] = std::move(extent);
  s.highest = std::max(s.highest, offset + bytes);
  s.written_bytes += bytes;
  s.pace(begin, bytes);
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
  const std::span<const uint64_t> hashes = s.written(offset, bytes).hashes;
  s.mover.read(offset + skip, to, count, hashes.subspan(skip / piece));
  s.read += count;
  s.pace(begin, count);
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
