// Folders made for files that may never be written.
#pragma once
#include <filesystem>
#include <vector>

namespace zrt::runtime::data {

class MadeFolders {
 public:
  // Makes `folder` and its parents where they are missing; "" is the current one. Throws DataError.
  explicit MadeFolders(const std::filesystem::path& folder);
  // Removes those that it made and that are empty, unless they are kept.
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  void keep() { made_.clear(); }

 private:
  void remove();
  std::vector<std::filesystem::path> made_;  // the innermost last
};

}  // namespace zrt::runtime::data
