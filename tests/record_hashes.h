// For tests that change the values of a checkpoint, whose hashes would show it.
#pragma once
#include <filesystem>

#include "core/file.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::testing {

// Makes a checkpoint's manifest say what its files hold now.
inline void record_hashes(const std::filesystem::path& checkpoint) {
  using namespace runtime::checkpoint;
  const std::filesystem::path path = checkpoint / manifest_name;
  Manifest manifest = parse_manifest(core::read_text(path, max_manifest_bytes), path.string());
  for (auto& [name, record] : manifest.files) record.xxh3 = core::InputFile(checkpoint / name).xxh3();
  core::write_durably(path, format_manifest(manifest));
}

}  // namespace zrt::testing
