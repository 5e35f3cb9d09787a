// Files that must survive a crash: written once, brought to disk, then renamed into place.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/hash.h"

namespace zrt::core {

// A file that does not exist yet. What was written is hashed on the way.
class NewFile {
 public:
  // Throws DataError with the system's reason, as all members do; for a full disk with what is free.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // closes; a file that was not kept is removed
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, uint64_t bytes);
  // Waits until the contents are on disk and closes the file, which then stays. A failed sync is final: the system may
  // have dropped the pages that it could not write.
  void keep();

  uint64_t bytes() const { return bytes_; }
  std::string xxh3() const { return hash_.hex(); }

 private:
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path path_;
  Hash hash_;
  uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

// Reads at any place, from any thread.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);  // a regular file; throws DataError
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t bytes() const { return bytes_; }  // when it was opened
  const std::filesystem::path& path() const { return path_; }
  void read(uint64_t offset, void* target, uint64_t count) const;  // throws DataError when the file ends before
  std::string xxh3() const;                                        // of the whole file
  // Hashes a small file whole; of one above 16 MiB the size and 256 blocks of 64 KiB at even distances, both ends among
  // them.
  std::string sampled_xxh3() const;

 private:
  std::filesystem::path path_;
  uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

// Tells whether `path` names the open file or folder.
bool names_open(const std::filesystem::path& path, int descriptor);

// All throw DataError with the path and the system's reason.
void make_folder(const std::filesystem::path& path);  // with its parents; may exist; stays after a power cut
void sync_folder(const std::filesystem::path& path);  // brings its entries (new names, renames) to disk
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
void write_durably(const std::filesystem::path& path, const std::string& text);  // replaces a file as a whole
uint64_t free_bytes(const std::filesystem::path& path);                          // for this user, where the path lies
// Reads a file of at most `most` bytes; read_text() refuses a pointer of Git LFS.
std::string read_bytes(const std::filesystem::path& path, uint64_t most);
std::string read_text(const std::filesystem::path& path, uint64_t most);

}  // namespace zrt::core
