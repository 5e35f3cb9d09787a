// Describes a checkpoint: its files with sizes and hashes, and all that a run needs beside tensors to go on. The
// manifest is written last; a folder without a valid one is no checkpoint.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime::checkpoint {

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr int manifest_version = 1;
inline constexpr uint64_t max_manifest_bytes = 64u << 20;

struct FileRecord {
  uint64_t bytes = 0;
  std::string xxh3;  // XXH3-64, 16 lower-case digits
};

struct Manifest {
  int64_t step = 0;
  int64_t samples = 0;          // consumed so far: where the data goes on
  int64_t planned_samples = 0;  // what the data was opened for; Megatron's order depends on it
  std::string optimizer;        // type; "" for weights without optimizer states
  Json model;                   // sizes, as in the configuration's section `model`
  Json control;                 // what the control block keeps from step to step; null without optimizer states
  Json made_by;                 // for people: ranks, stage …; and of several optimizers the parameters of each
  std::map<std::string, FileRecord> files;  // by path below the checkpoint's folder
};

// Ends with a hash of all bytes before it, so that every changed bit shows.
std::string format_manifest(const Manifest& manifest);
// Throws DataError naming `name` and what is wrong. File names with "..", absolute or hidden ones are refused.
Manifest parse_manifest(const std::string& text, const std::string& name);

}  // namespace zrt::runtime::checkpoint
