// The safetensors format: 8 bytes of header length (little endian), a JSON header, raw tensors without gaps.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace zrt::runtime::checkpoint {

inline constexpr uint64_t max_header_bytes = 100'000'000;
inline constexpr uint64_t read_buffer_bytes = 1 << 19;  // of host memory that SafetensorsFile::read holds, at most

inline constexpr const char* weight_types = "F32, BF16, F16 and F64";
bool is_weight_type(std::string_view dtype);  // one of those: SafetensorsFile::read takes it

struct TensorEntry {
  std::string name, dtype;  // dtype as in the file: "F32", "BF16", …
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the data
  int64_t elements() const;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  // by place in the data
};

// Strict: no gaps or overlaps, sizes that fit shapes, no duplicate names, exactly `data_bytes` of data, a first byte
// '{'. `name` stands for the file in messages. Throws DataError.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& name);

// Orders tensors as the reference writer does (larger types first, then by name), sets their places, and returns what
// stands before the data. Adds "format": "pt" to the metadata: readers refuse files without it.
std::string lay_out(SafetensorsHeader& header);

// A file on disk, its header checked when it is opened. Thread safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t header_bytes() const { return data_; }
  // Elements [first, first + out.size()) of a tensor whose type is_weight_type.
  void read(const TensorEntry& tensor, int64_t first, std::span<float> out) const;

 private:
  core::InputFile file_;
  SafetensorsHeader header_;
  uint64_t data_ = 0;
};

}  // namespace zrt::runtime::checkpoint
