// Named tensors spread over safetensors files: whole, or in rectangles with their place in the file's metadata.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/rectangle.h"
#include "runtime/train/checkpoint/safetensors.h"

namespace zrt::runtime::checkpoint {

class TensorSet {
 public:
  // Opens the files and checks that the rectangles of each tensor cover it exactly once. `folder` is for messages.
  // Throws DataError.
  TensorSet(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files);

  bool has(const std::string& tensor) const { return tensors_.count(tensor) != 0; }
  std::vector<std::string> names() const;  // sorted
  const std::vector<int64_t>& shape(const std::string& tensor) const;
  const std::string& dtype(const std::string& tensor) const;
  // Elements [begin, begin + out.size()) of the whole tensor, as fp32. Thread safe. Throws DataError.
  void read(const std::string& tensor, int64_t begin, std::span<float> out) const;

 private:
  struct Piece {
    std::shared_ptr<const SafetensorsFile> file;
    TensorEntry entry;
    Rectangle rectangle;
  };
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<Piece> pieces;
  };
  const Tensor& find(const std::string& tensor) const;
  void check(const std::string& name, const Tensor& tensor) const;

  std::filesystem::path folder_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace zrt::runtime::checkpoint
