// Kinds of files that are no text, known by their first bytes, and the commands that make text of them.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zrt::runtime::data {

struct BinaryKind {
  std::string name;    // "a parquet file"
  std::string advice;  // a sentence: the command that converts the file, where there is one
};

inline constexpr size_t binary_head_bytes = 4096;  // of a file suffice

// The kind of the file at `path` whose text, decompressed if its name says so, begins with `head`. No text begins as
// these files do.
std::optional<BinaryKind> binary_kind(std::string_view head, const std::string& path);
// Kinds that begin with letters, as a text might: to be asked about where the file turned out to be none.
std::optional<BinaryKind> lettered_kind(std::string_view head, const std::string& path);

// The kind of a file that nobody opened yet, either of the above; nothing for text and where it cannot be read.
std::optional<BinaryKind> kind_of_file(const std::string& path);

// The encoding that a byte order mark of UTF-16 or UTF-32 says; "" for none.
std::string marked_encoding(std::string_view head);

}  // namespace zrt::runtime::data
