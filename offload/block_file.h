// The NVMe tier of one rank: a file that is read and written past the page cache (O_DIRECT) with io_uring, and that
// remembers a hash of every piece it was given, so that what comes back is what went in or an error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace zrt::offload {

inline constexpr uint64_t block_alignment = 4096;  // of offsets, sizes and addresses
inline constexpr uint64_t piece_bytes = 1 << 20;   // of one transfer and one hash, counted from the start of an extent

struct BlockFileOptions {
  std::filesystem::path folder;  // exists
  int rank = 0;                  // names the file in messages: "rank-<n>.zrt"
  uint64_t bytes = 0;            // of the whole file
  unsigned depth = 32;           // transfers in flight
  uint64_t piece = piece_bytes;  // a multiple of block_alignment up to 1 GiB
  double bytes_per_second = 0;   // slows the file down to this, for tests and measurements; 0: as fast as it is
  std::function<void(const std::string&)> warn;  // why something is slower than it could be
};

// Bytes [begin, end) of an extent.
struct ExtentPart {
  uint64_t begin = 0, end = 0;
};

class BlockFile {
 public:
  // Takes the space at once; it is free again when the process ends, however it ends. Throws core::DataError naming the
  // folder when there is too little room. Warns and works without where the file system has no direct I/O, or the
  // system does not permit io_uring.
  explicit BlockFile(const BlockFileOptions& options);
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // Memory that transfers will use, for the kernel to pin once (registered buffers); it must outlive the file. Beyond
  // RLIMIT_MEMLOCK: a warning, and transfers work without.
  void register_memory(std::byte* data, uint64_t bytes);

  // An extent of `bytes` at `offset`, both and the address multiples of block_alignment. Blocks until it is done. An
  // extent is read as it was written: same offset, same size; one whose write failed counts as never written. One
  // thread at a time. Throws core::DataError naming the file, the offset and what is wrong: an error of the system, a
  // file that was cut short, a piece with another hash, an extent that was not written; `to` then holds
  // anything.
  void write(uint64_t offset, const std::byte* from, uint64_t bytes);
  // Writes an extent that is equal in `parts` to the one of as many bytes at `of`. The pieces of these parts, whole
  // ones in order, are not written: they become aliases, read from where the other has them, until either extent is
  // written again, to a place of its own. `from` need not have them. From then on nothing but one of the two may be
  // written where they lie.
  void write_alias(uint64_t offset, const std::byte* from, uint64_t bytes, uint64_t of,
                   std::span<const ExtentPart> parts);
  // True if all space is reserved, so that an alias can be written later although others fill the disk.
  bool space_taken() const;
  void read(uint64_t offset, std::byte* to, uint64_t bytes);
  // Bytes [skip, skip + count) of the extent of `bytes` at `offset`: whole pieces, of which the extent's last may be
  // shorter. What lies around them is not read.
  void read_part(uint64_t offset, uint64_t bytes, uint64_t skip, std::byte* to, uint64_t count);
  // True if bytes [skip, skip + count) of the extent of `bytes` at `offset` lie entirely in other extents' places.
  bool is_alias(uint64_t offset, uint64_t bytes, uint64_t skip, uint64_t count) const;
  uint64_t piece() const;  // bytes of one

  uint64_t highest_written() const;  // one past the last extent, an alias's too
  uint64_t bytes_read() const;
  uint64_t bytes_written() const;
  const std::filesystem::path& path() const;  // in messages

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zrt::offload
