// A folder that a process writes into for hours and that others may rename or remove meanwhile. It is held open, so
// what is written goes where it lies now, and no second folder is made under the name that it had.
#pragma once
#include <filesystem>
#include <string>

namespace zrt::core {

class HeldFolder {
 public:
  explicit HeldFolder(std::filesystem::path path) : path_(std::move(path)) {}  // not held yet
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  // Holds the folder at the path, which exists: it is meant from now on, whatever its name becomes. Throws DataError.
  void hold();

  // The folder's present path; before hold() the path it was given. Any thread. Throws DataError when it was removed.
  std::filesystem::path now() const;
  std::filesystem::path operator/(const std::string& name) const { return now() / name; }
  operator std::filesystem::path() const { return now(); }
  std::string string() const { return now().string(); }

  // Says once that the folder got another name; "" otherwise. Throws like now().
  std::string renamed();

  // Makes or touches an empty file in it, best effort. Any thread.
  void touch(const char* name) const;
  // Replaces a file in it as a whole; a link of that name is replaced, not followed. Throws DataError.
  void write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
  std::filesystem::path told_;  // by renamed()
  int descriptor_ = -1;
};

// Refuses a symbolic link, a pipe or a device at `path`: whoever put it into the folder would choose what is written
// there. Throws DataError.
void refuse_special(const std::filesystem::path& path);

}  // namespace zrt::core
