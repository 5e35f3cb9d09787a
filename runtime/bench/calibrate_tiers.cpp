// The disk as the NVMe tier uses it, by a file of each rank, and what an update on the host costs the computation
// beside.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/arena.h"
#include "core/file.h"
#include "offload/block_file.h"
#include "optimizer/adam_update.h"
#include "runtime/bench/calibrate.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using core::DType;

constexpr uint64_t largest_extent = 16 << 20;  // of the order of a unit's state

// A folder that goes with what lies in it.
struct Scratch {
  explicit Scratch(fs::path at) : path(std::move(at)) { core::make_folder(path); }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  fs::path path;
};

// The inverse of what op_cost() makes of a disk.
double rate_of(double seconds, double latency, uint64_t extents, double bytes) {
  return bytes / std::max(seconds - latency * static_cast<double>(extents), seconds / 20);
}

void measure_disk(Rig& rig, const fs::path& folder, MeasuredTiers& measured) {
  const Scratch scratch(folder / fmt::format(".zrt-calibrate-{}", getpid()));
  const uint64_t share = rig.effort().disk_bytes / static_cast<uint64_t>(rig.on_host());
  const uint64_t extent =
      std::clamp(share / offload::block_alignment * offload::block_alignment, offload::block_alignment, largest_extent);
  const uint64_t extents = std::max<uint64_t>(1, share / extent), small = extents * extent;
  std::vector<std::unique_ptr<core::Arena>> arenas;
  std::vector<std::unique_ptr<offload::BlockFile>> files;
  for (int rank = 0; rank < rig.local(); ++rank) {
    arenas.push_back(rig.arena(rank, extent, core::Tier::host));
    offload::BlockFileOptions options;
    options.folder = scratch.path, options.rank = rank, options.bytes = small + offload::block_alignment;
    files.push_back(std::make_unique<offload::BlockFile>(options));
    files.back()->write(small, arenas.back()->data(), offload::block_alignment);
  }
  const auto each = [&](int rank, auto transfer) {
    for (uint64_t i = 0; i < extents; ++i) {
      transfer(*files[static_cast<size_t>(rank)], i * extent, arenas[static_cast<size_t>(rank)]->data(), extent);
    }
  };
  constexpr Rig::Way on_host{.on_host = true};
  rig.tell("disk: latency");
  const double latency = rig.seconds(
      [&](int rank) {
        files[static_cast<size_t>(rank)]->read(small, arenas[static_cast<size_t>(rank)]->data(),
                                               offload::block_alignment);
      },
      on_host);
  rig.tell("disk: writes");
  const double write = rig.seconds(
      [&](int rank) {
        each(rank, [](auto& file, uint64_t at, std::byte* data, uint64_t bytes) { file.write(at, data, bytes); });
      },
      on_host);
  rig.tell("disk: reads");
  const double read = rig.seconds(
      [&](int rank) {
        each(rank, [](auto& file, uint64_t at, std::byte* data, uint64_t bytes) { file.read(at, data, bytes); });
      },
      on_host);
  const double bytes = static_cast<double>(small) * rig.on_host();
  measured.disk = {latency, rate_of(write, latency, extents, bytes)};
  measured.disk_read_bytes_per_second = rate_of(read, latency, extents, bytes);
}

void measure_host_lane(Rig& rig, MeasuredTiers& measured) {
  rig.tell("lanes: a computation beside an update on the host");
  const int64_t parameters = rig.effort().parameters / 4;
  std::vector<std::unique_ptr<core::Arena>> arenas;
  arenas.reserve(static_cast<size_t>(rig.local()));
  for (int rank = 0; rank < rig.local(); ++rank) {
    arenas.push_back(rig.arena(rank, 16 * static_cast<uint64_t>(parameters), core::Tier::host));
  }
  measured.beside_host = measure_overlap(
      rig,
      [&](int rank) {
        auto* master = reinterpret_cast<float*>(arenas[static_cast<size_t>(rank)]->data());
        auto* grad = reinterpret_cast<std::byte*>(master + 3 * parameters);
        optimizer::adam_update({0.9f, 0.95f, 1e-8f, 0.1f, true}, {1e-4f, 1.0f, 0.1f, 0.05f}, parameters, master,
                               master + parameters, master + 2 * parameters, grad, DType::bf16, grad + 2 * parameters,
                               DType::bf16);
      },
      {.on_host = true}, rig.threads());
}

}  // namespace

MeasuredTiers measure_tiers(Rig& rig, const std::string& folder) {
  MeasuredTiers measured;
  if (!rig.on_gpu()) measure_host_lane(rig, measured);  // an update there takes nothing from a GPU
  measure_disk(rig, folder, measured);
  return measured;
}

}  // namespace zrt::runtime
