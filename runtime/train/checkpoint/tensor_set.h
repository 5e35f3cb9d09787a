// Named tensors spread over safetensors files: whole, or in rectangles with their place in the file's metadata.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/train/checkpoint/rectangle.h"
#include "runtime/train/checkpoint/safetensors.h"

namespace zrt::runtime::checkpoint {

class TensorSet {
 public:
  // Opens the files and checks that the rectangles of each tensor cover it exactly once. `folder` is for messages.
  // Throws DataError.
  TensorSet(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files);

  // Gives every tensor another name, and drops those that `to` has no name for. Throws DataError where two tensors get
  // the same.
  void rename(const std::function<std::optional<std::string>(const std::string&)>& to);

  // Makes tensors of so many rows each of one of this shape, of two dimensions or more, that a file holds in one piece.
  // Throws DataError where it has another shape, or where there is a tensor of a part's name already.
  struct Part {
    std::string name;
    int64_t rows;
  };
  void split(const std::string& tensor, const std::vector<Part>& parts, const std::vector<int64_t>& shape);

  // Takes those tensors of another set that this one lacks.
  void include(const TensorSet& other);

  bool has(const std::string& tensor) const { return tensors_.contains(tensor) || aliases_.contains(tensor); }
  std::vector<std::string> names() const;  // sorted
  const std::vector<int64_t>& shape(const std::string& tensor) const;
  int64_t elements(const std::string& tensor) const;
  const std::string& name_in_file(const std::string& tensor) const;  // what it was called before rename
  const std::string& dtype(const std::string& tensor) const;
  // Gives a tensor a second name, under which it is read as under its own.
  void alias(const std::string& tensor, const std::string& name);
  bool is_alias(const std::string& name) const { return aliases_.contains(name); }
  // Host memory that the names and places of the tensors take while the files are opened and from then on, at most.
  uint64_t table_bytes() const;
  // Elements [begin, begin + out.size()) of the whole tensor, as fp32. Thread safe. Throws DataError.
  void read(const std::string& tensor, int64_t begin, std::span<float> out) const;
  // The same, and throws DataError with the file, the tensor's name there and the element where the first value is that
  // is NaN or infinite, or would be in `type`.
  void read_finite(const std::string& tensor, int64_t begin, std::span<float> out, core::DType type) const;

 private:
  struct StoredRectangle {
    std::shared_ptr<const SafetensorsFile> file;
    TensorEntry entry;
    Rectangle rectangle;
  };
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<StoredRectangle> rectangles;
  };
  const Tensor& find(const std::string& tensor) const;
  void check(const std::string& name, const Tensor& tensor) const;

  std::filesystem::path folder_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> aliases_;  // second names, and whose they are
  uint64_t header_bytes_ = 0;                   // of all files
  uint64_t split_bytes_ = 0;                    // of the names and places of parts
};

}  // namespace zrt::runtime::checkpoint
