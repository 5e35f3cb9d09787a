// A test's way into a scratch file, which has no name: by a descriptor of this process.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>

namespace zrt::testing {

// The descriptor of the file that messages call `path`.
inline int descriptor_of(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(path.string() + ".")) return std::stoi(entry.path().filename().string());
  }
  throw std::runtime_error("no descriptor of " + path.string());
}

inline std::filesystem::path way_into(const std::filesystem::path& path) {
  return "/proc/self/fd/" + std::to_string(descriptor_of(path));
}

}  // namespace zrt::testing
