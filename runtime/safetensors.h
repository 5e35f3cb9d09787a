// Weights on disk in the safetensors format: an 8-byte little-endian header length, a JSON header, raw tensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace zrt::runtime {

// Writes fp32 tensors in the order they were announced. The file appears under its name only when finish() has synced
// it; a crash leaves the old file, if any. Throws DataError with the file's name and the system's reason.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  SafetensorsWriter(std::filesystem::path file, const std::vector<Tensor>& tensors);
  ~SafetensorsWriter();
  void append(const float* values, uint64_t count);  // the next tensor, whole
  void finish();

 private:
  void write(const void* data, uint64_t bytes);
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
  uint64_t written_ = 0, expected_ = 0;
};

// Reads tensors of type F32 by name. Throws DataError for a missing, truncated or malformed file.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& file);
  // Elements [begin, begin + out.size()) of a tensor that must have `elements` of them. Thread safe.
  void read(const std::string& name, int64_t elements, int64_t begin, std::span<float> out) const;

 private:
  struct Entry {
    uint64_t begin, end;  // bytes from the data's start
  };
  std::filesystem::path file_;
  uint64_t data_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace zrt::runtime
