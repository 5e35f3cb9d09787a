// The disk of the NVMe tier: what training reads and writes of it, against fio on the same folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bench/bench.h"

namespace zrt::runtime {

struct IoBenchOptions {
  std::filesystem::path folder;  // exists
  uint64_t bytes = 0;            // of the file; a multiple of 4096, as all sizes
  uint64_t extent = 0;           // read or written by one call
  uint64_t block = 0;            // of one transfer and one hash
  unsigned depth = 0;
  int rounds = 0;
  bool fio = false;
};

struct IoBenchRow {
  bool writes = false;
  Spread bytes_per_second;
  std::optional<Spread> fio_bytes_per_second, of_fio;  // round by round
};
struct IoBench {
  std::vector<IoBenchRow> rows;       // write, read
  std::vector<std::string> warnings;  // why it is slower than it could be
};
// Every round writes the whole file and reads it, hashes included, in turn with fio (a file of its own beside it, a
// process per measurement); who begins alternates. The first round, which fills the files, is not counted. Throws
// DataError when fio is asked for and cannot be run.
IoBench bench_io(const IoBenchOptions& options, const Progress& progress);

// Returns what fio measures: sequential, direct, by io_uring, with registered buffers if `pinned`. Leaves `file`
// behind.
double fio_bytes_per_second(const IoBenchOptions& options, const std::filesystem::path& file, bool writes, bool pinned);

}  // namespace zrt::runtime
