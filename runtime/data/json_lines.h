// Text whose lines are JSON, as corpora are often handed on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace zrt::runtime::data {

// The ending that says JSON: .jsonl, .ndjson or .json in letters of either case, also of a .gz or .zst; "" for
// none.
std::string json_ending(std::string name);

// By the begin of a file, whose last line may be cut: each line is an object, alone or as one of a list's.
bool are_json_lines(std::string_view text);

// Counts how many lines of a text, handed over piece by piece, are JSON. A text counts as JSON when more than half of
// its lines are: prose and source code hold some JSON, and JSON lines some comments. A line is JSON when it parses as
// an object with a key, or as a list with a text, an object or two values; "{}" and "[1]" stand in text, too. A comma
// may follow it, but no list of mere numbers, as in tables of source code. The lines of a value that lies over several
// are JSON, too, if it begins with a bracket at the begin of a line. Blank lines and lines of brackets do not count. A
// line above 64 KiB is judged by its begin.
class JsonLineCount {
 public:
  void add(std::string_view piece);
  void end() { end_line(); }  // of the text

  bool mostly_json() const { return 2 * json_ > lines_; }
  int64_t lines() const { return lines_; }  // that count
  int64_t json() const { return json_; }
  int64_t first() const { return first_; }  // byte at which the first of them begins

 private:
  bool takes(std::string_view line, bool cut);
  void take(std::string_view line, bool cut);
  void end_line();

  std::string held_;                // the begin of a line whose end may be in the next piece
  bool cut_ = false;                // it goes on behind what is held
  std::string open_;                // brackets of a value that other lines close
  int64_t offset_ = 0, place_ = 0;  // in the text: of the next piece, and of the line
  int64_t lines_ = 0, json_ = 0, first_ = 0;
};

}  // namespace zrt::runtime::data
