#include "runtime/data/made_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"

namespace zrt::runtime::data {

namespace fs = std::filesystem;

MadeFolders::MadeFolders(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  std::vector<fs::path> missing;
  // A path that ends in a slash names its folder twice.
  for (fs::path at = fs::absolute(folder, failed).lexically_normal(); !at.empty() && !fs::exists(at, failed);
       at = at.parent_path())
    if (at.has_filename()) missing.push_back(at);
  std::reverse(missing.begin(), missing.end());
  for (const fs::path& path : missing) {
    std::error_code error;
    if (fs::create_directory(path, error)) made_.push_back(path);
    if (!error) continue;
    remove();
    throw core::DataError(fmt::format("{}: cannot make this folder: {}.", path.string(), error.message()));
  }
}

MadeFolders::~MadeFolders() {
  remove();
}

void MadeFolders::remove() {
  std::error_code ignored;  // one that is no longer empty stays
  for (; !made_.empty(); made_.pop_back()) {
    if (fs::is_empty(made_.back(), ignored)) fs::remove(made_.back(), ignored);
  }
}

}  // namespace zrt::runtime::data
