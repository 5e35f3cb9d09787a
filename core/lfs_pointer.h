// A pointer of Git LFS is a small text that a clone without `git lfs` has in place of a file.
#pragma once
#include <string_view>

namespace zrt::core {

inline constexpr std::string_view lfs_pointer_begin = "version https://git-lfs";
inline constexpr std::string_view lfs_pointer_reason =
    "is a pointer of Git LFS, not the file that it stands for; fetch that with `git lfs pull`";

// Tells by the first bytes of a file.
inline bool is_lfs_pointer(std::string_view begin) {
  return begin.starts_with(lfs_pointer_begin);
}

}  // namespace zrt::core
