// Writes what a reader has opened as a checkpoint of its own: every tensor under every name that it has, a part at a
// time, whatever its size.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime::checkpoint {

struct CopyHooks {
  // Changes values on their way, each by itself: they come in parts of any size.
  std::function<void(const std::string& tensor, std::span<float> values)> change = nullptr;
  std::function<void(uint64_t done, uint64_t bytes)> progress = nullptr;  // bytes: in all
};

// The memory and disk that a copy needs.
struct CopyPlan {
  uint64_t host_bytes = 0;  // of host memory at any moment, at most, the tables of what is open included
  uint64_t disk_bytes = 0;  // of the checkpoint, rounded up
};
CopyPlan plan_copy(const Reader& from);

// Throws DataError where the disk on which `folder` is or would be made has less room.
void require_room(const std::filesystem::path& folder, const CopyPlan& plan);

// Writes the checkpoint into `store`, which is made in a folder that exists. `manifest` lacks only its files. Throws
// DataError, also for the first value that is NaN or infinite, and leaves no part of the checkpoint behind.
void copy_checkpoint(const Reader& from, Manifest manifest, const std::filesystem::path& store,
                     const CopyHooks& hooks = {});

}  // namespace zrt::runtime::checkpoint
