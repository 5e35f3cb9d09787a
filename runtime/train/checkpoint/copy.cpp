#include "runtime/train/checkpoint/copy.h"

#include <fmt/format.h>

#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/ledger.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::vector<Run>>;

// Lists what each file will hold. The runs read `set` when they are written.
Files files_of(const TensorSet* set) {
  constexpr int64_t most = int64_t{1} << 28;  // elements of a file, unless one tensor has more
  Files files;
  int64_t held = 0;
  for (const std::string& name : set ? set->names() : std::vector<std::string>()) {
    const int64_t count = set->elements(name);
    if (files.empty() || held + count > most) files.emplace_back(), held = 0;
    held += count;
    Run run{name, set->shape(name), 0, count};
    run.read = [set, name](uint64_t skip, std::byte* to, uint64_t bytes) {
      set->read_finite(name, static_cast<int64_t>(skip / sizeof(float)),
                       {reinterpret_cast<float*>(to), static_cast<size_t>(bytes / sizeof(float))}, core::DType::f32);
    };
    files.back().push_back(std::move(run));
  }
  return files;
}

uint64_t bytes_of(const Files& files) {
  uint64_t bytes = 0;
  for (const std::vector<Run>& runs : files) {
    for (const Run& run : runs) bytes += static_cast<uint64_t>(run.count) * sizeof(float);
  }
  return bytes;
}

// The runs change what they have read, and tell of it.
void attach(Files& files, const CopyHooks& hooks, uint64_t& done, uint64_t bytes) {
  for (std::vector<Run>& runs : files) {
    for (Run& run : runs) {
      run.read = [&hooks, &done, bytes, name = run.tensor, read = std::move(run.read)](uint64_t skip, std::byte* to,
                                                                                       uint64_t count) {
        read(skip, to, count);
        if (hooks.change)
          hooks.change(name, {reinterpret_cast<float*>(to), static_cast<size_t>(count / sizeof(float))});
        done += count;
        if (hooks.progress) hooks.progress(done, bytes);
      };
    }
  }
}

void write_files(const fs::path& folder, const std::string& below, const Files& files, Manifest& manifest) {
  for (size_t k = 0; k < files.size(); ++k) {
    for (const auto& [name, record] : write_shard(folder / below, static_cast<int>(k), files[k])) {
      manifest.files[below + name] = record;
    }
  }
}

}  // namespace

CopyPlan plan_copy(const Reader& from) {
  from.require_base();
  constexpr uint64_t of_tensor = 4096, of_letter = 16;  // of the tables of what is written; measured: half of it
  CopyPlan plan{from.table_bytes() + write_buffer_bytes + read_buffer_bytes, 1 << 20};  // 1 << 20: of the manifest
  for (const TensorSet* set : {&from.weights(), from.states()}) {
    for (const std::vector<Run>& runs : files_of(set)) {
      plan.disk_bytes += shard_bytes(runs);
      for (const Run& run : runs) plan.host_bytes += of_tensor + of_letter * run.tensor.size();
    }
  }
  return plan;
}

void require_room(const fs::path& folder, const CopyPlan& plan) {
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there)) there = there.parent_path();
  const uint64_t free = core::free_bytes(there), needed = plan.disk_bytes;
  if (free >= needed) return;
  throw core::DataError(
      fmt::format("{}: the checkpoint needs {} bytes ({}) but {} ({}) are free; make room, or name a folder on another "
                  "disk",
                  folder.string(), needed, core::format_bytes(needed), free, core::format_bytes(free)));
}

void copy_checkpoint(const Reader& from, Manifest manifest, const fs::path& store, const CopyHooks& hooks) {
  Files weights = files_of(&from.weights()), states = files_of(from.states());
  uint64_t done = 0;
  const uint64_t bytes = bytes_of(weights) + bytes_of(states);
  attach(weights, hooks, done, bytes);
  attach(states, hooks, done, bytes);
  const fs::path folder = begin_checkpoint(store, manifest.step);
  try {
    manifest.files.clear();
    write_files(folder, "", weights, manifest);
    write_files(folder, "optimizer/", states, manifest);
    commit_checkpoint(store, folder, manifest);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
}

}  // namespace zrt::runtime::checkpoint
