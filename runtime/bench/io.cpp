#include "runtime/bench/io.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/arena.h"
#include "offload/block_file.h"
#include "runtime/bench/ceiling.h"

namespace zrt::runtime {
namespace {

// The file is removed also when fio fails half-way.
struct FioFile {
  std::filesystem::path path;
  ~FioFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

struct Measured {
  std::vector<double> ours, fio, ratio;
};

}  // namespace

IoBench bench_io(const IoBenchOptions& options, const Progress& progress) {
  IoBench bench;
  core::Arena arena(core::Tier::host, options.extent);
  fill_random(arena.data(), options.extent, core::DType::f32);
  offload::BlockFileOptions file_options;
  file_options.folder = options.folder;
  file_options.bytes = options.bytes;
  file_options.depth = options.depth;
  file_options.piece = options.block;
  file_options.warn = [&](const std::string& what) { bench.warnings.push_back(what); };
  offload::BlockFile file(file_options);
  file.register_memory(arena.data(), options.extent);
  const FioFile beside{options.folder / "fio.zrt"};

  const auto ours = [&](bool writes) {
    const double seconds = time_ranks(1, 1, [&](int) {
      for (uint64_t at = 0; at < options.bytes; at += options.extent) {
        const uint64_t bytes = std::min(options.extent, options.bytes - at);
        writes ? file.write(at, arena.data(), bytes) : file.read(at, arena.data(), bytes);
      }
    });
    return static_cast<double>(options.bytes) / seconds;
  };
  // Pages pinned once cost less than pages pinned for each transfer, so fio gets what the file got.
  const auto fios = [&](bool writes) {
    return fio_bytes_per_second(options, beside.path, writes, bench.warnings.empty());
  };
  Measured measured[2];  // reads, writes
  for (int round = 0; round <= options.rounds; ++round) {
    for (const bool writes : {true, false}) {
      progress(fmt::format("round {} of {}: {}", round, options.rounds, writes ? "write" : "read"));
      double own = 0, theirs = 0;
      if (options.fio && round % 2 == 1) theirs = fios(writes);
      own = ours(writes);
      if (options.fio && round % 2 == 0) theirs = fios(writes);
      if (round == 0) continue;
      Measured& of = measured[writes];
      of.ours.push_back(own);
      of.fio.push_back(theirs);
      of.ratio.push_back(own / theirs);
    }
  }
  for (const bool writes : {true, false}) {
    IoBenchRow row{writes, spread(measured[writes].ours), {}, {}};
    if (options.fio) {
      row.fio_bytes_per_second = spread(measured[writes].fio);
      row.of_fio = spread(measured[writes].ratio);
    }
    bench.rows.push_back(row);
  }
  return bench;
}

}  // namespace zrt::runtime
