// A regular file mapped read-only into memory. The file must not shrink while it is mapped.
#pragma once
#include <cstddef>
#include <string>

namespace zrt::models::data {

class MappedFile {
 public:
  // Throws DataError naming the path when it is missing, not a regular file or cannot be mapped.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }  // null when the file is empty
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace zrt::models::data
