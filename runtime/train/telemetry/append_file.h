// Appends to a file of records such that a disk that takes no more does not end a run: what could not be written is
// kept and tried again with the next record, and never half a record stays.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace zrt::runtime {

class AppendFile {
 public:
  // The file exists and holds `written` bytes. Throws DataError.
  AppendFile(std::filesystem::path file, int64_t written);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void add(const std::string& record);
  const std::string& error() const { return error_; }  // why records are being kept; "" when none are

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  int64_t written_ = 0;  // bytes of whole records
  std::string kept_, error_;
};

}  // namespace zrt::runtime
