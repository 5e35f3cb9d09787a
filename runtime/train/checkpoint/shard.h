// The files one rank writes, in the form that PyTorch's distributed checkpoint reads ("HuggingFaceStorageReader"):
// plain safetensors whose metadata say where in the whole tensor each rectangle lies. A tensor may occur once per file,
// so the rectangles of one run go to several files: rectangle k to part k.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/form.h"
#include "models/param.h"
#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/rectangle.h"

namespace zrt::runtime::checkpoint {

// Elements [begin, begin + count) of a whole fp32 tensor, or of the part of one that a tensor-parallel rank has, kept
// in any form: in memory of the host or of a GPU, or wherever `read` finds them.
struct Run {
  std::string tensor;
  std::vector<int64_t> shape;  // of the tensor, or of the part
  int64_t begin = 0, count = 0;
  core::Form form = core::Form::f32;
  const std::byte* values = nullptr;                // a multiple of form_alignment behind which may lie padding
  core::DeviceKind device = core::DeviceKind::cpu;  // whose memory that is
  // In place of `values`: copies bytes [skip, skip + bytes) of what would lie there.
  std::function<void(uint64_t skip, std::byte* to, uint64_t bytes)> read = nullptr;
  std::optional<models::Slice> slice{};  // of a part
  int tensor_rank = 0;
};

// Writes shard-<rank + 1>-model-<part>-of-<parts>.safetensors into `folder` (which exists), each brought to disk.
// Returns name → size and hash. Nothing is written for no runs. Throws DataError; files written until then stay.
std::map<std::string, FileRecord> write_shard(const std::filesystem::path& folder, int rank, std::span<const Run> runs);

// Host memory in which write_shard holds a part of a run, at most.
inline constexpr uint64_t write_buffer_bytes = 8 << 20;

// Bytes that write_shard will write, headers rounded up.
uint64_t shard_bytes(std::span<const Run> runs);

inline constexpr const char* sharding_key = "DCP_SHARDING_INFO";
// The offsets of a file's tensors; a tensor that is not named lies at the origin. Throws DataError.
std::map<std::string, std::vector<int64_t>> parse_sharding(const std::string& text, const std::string& name);

}  // namespace zrt::runtime::checkpoint
