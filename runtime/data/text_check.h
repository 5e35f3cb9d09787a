// Refuses files that are not UTF-8 text, and JSON lines (json_lines.h): a tokenizer would learn whatever bytes it is
// given.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/json_lines.h"

namespace zrt::runtime::data {

// The text of one file, handed over piece by piece, after decompression. A file may hold at most one byte in
// `tolerated` that is not UTF-8.
class TextCheck {
 public:
  static constexpr int64_t tolerated = 1000;

  explicit TextCheck(std::string path);

  // Bytes of a mark that says UTF-8 (byte order mark) at the begin of the first piece, which is no text. Throws
  // DataError naming the file, the offset and what to do where the file is binary, UTF-16, UTF-32 or, from its first to
  // its last line, JSON. The first piece has 512 bytes or more, or the whole file.
  size_t begin(std::string_view first);
  // The same of a file that is read as JSON, which add() and end() do not look at.
  size_t begin_any(std::string_view first);
  // Call it when a line of such a file is no JSON. Throws DataError where it is binary, in UTF-16 or UTF-32, or a list.
  void refuse_other() const;
  // Every piece, also the first, with its mark. Throws DataError as begin().
  void add(std::string_view piece);
  // At the end of the file. Throws DataError when too much of it is not UTF-8 or control characters, or most of its
  // lines are JSON.
  void end();

  int64_t invalid() const { return invalid_; }              // bytes that are not UTF-8
  int64_t first_invalid() const { return first_invalid_; }  // where the first of them is

 private:
  [[noreturn]] void refuse(int64_t offset, const std::string& what) const;
  [[noreturn]] void refuse_zero(int64_t offset) const;
  void refuse_controls() const;
  void check(std::string_view text, bool whole);

  std::string path_;
  std::string head_;     // the file's first bytes: what kind of file it is
  std::string pending_;  // the begin of a character whose end may be in the next piece
  int64_t offset_ = 0;   // in the file, of what has not been checked
  int64_t invalid_ = 0, first_invalid_ = 0;
  int64_t controls_ = 0, first_control_ = 0;  // characters of control
  JsonLineCount json_;
};

}  // namespace zrt::runtime::data
