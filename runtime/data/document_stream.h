// The documents of a list of files, text or JSON lines, one after the other.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/chat/chat_template.h"
#include "runtime/data/encoder.h"
#include "runtime/data/input_files.h"
#include "runtime/data/json_field.h"
#include "runtime/data/text_check.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

// Documents of plain text. file: each file is one. paragraph: blank lines separate them and belong to none. In JSON
// lines the text of each line is one.
enum class Documents : uint8_t { file, paragraph };

// "file" or "paragraph". Throws ConfigError.
Documents parse_documents(const std::string& name);

// A file of which a few bytes are not UTF-8.
struct DamagedText {
  std::string path;
  int64_t bytes = 0, first = 0;  // how many, and the offset of the first
};

// A file with lines that are no JSON or lack the text.
struct BadLines {
  std::string path;
  int64_t count = 0, first = 0;  // lines count from 1
  std::string reason;            // of the first
};

// Options for files of JSON lines, known by their names (json_ending).
struct LineOptions {
  std::string field = "text";  // whose text is the document
  bool skip_bad = false;       // leave bad lines out, and count them
  const chat::ChatTemplate* chat =
      nullptr;  // lines are conversations (chat_line.h), and what it makes of them documents
};

class DocumentStream {
 public:
  // on_read is called after every chunk with the file it came from and all bytes of text read so far; may be empty.
  using OnRead = std::function<void(const std::string& path, int64_t bytes)>;
  DocumentStream(const std::vector<InputFile>& files, Documents documents, const LineOptions& lines, OnRead on_read);

  // The next document, never empty nor white space alone; false at the end. Throws DataError naming the file when it
  // cannot be read, is no text (text_check.h), has a bad line (json_field.h; unless skip_bad), holds no document
  // although it was named, or holds one above 2^31 - 2 bytes.
  bool next(std::string& document);

  const std::string& path() const { return files_[file_].path; }  // of the last document
  DocumentPlace place() const;                                    // likewise; as long as the files' names live
  const std::string& counts() const { return counts_; }  // of its bytes, where it is a conversation (chat_template.h)
  const std::vector<SkippedInput>& skipped() const { return skipped_; }  // files of folders without text
  const std::vector<DamagedText>& damaged() const { return damaged_; }
  const std::vector<BadLines>& bad_lines() const { return bad_; }  // that were skipped

 private:
  bool next_in_file(std::string& document);
  bool next_paragraph(std::string& document);
  bool next_object(std::string& document);
  bool next_line(std::string_view& line);
  std::string read_line(std::string_view line, std::string& document);
  void take_bad_line(const std::string& reason);
  void end_file();
  bool fill();
  void append(std::string& document, const char* text, size_t bytes) const;
  void open_next();

  const std::vector<InputFile>& files_;
  Documents documents_;
  JsonField field_;
  bool skip_bad_;
  const chat::ChatTemplate* chat_;
  std::string counts_;
  OnRead on_read_;
  std::optional<TextReader> reader_;
  std::optional<TextCheck> check_;
  bool begun_ = false;  // something was read of the file
  std::vector<SkippedInput> skipped_;
  std::vector<DamagedText> damaged_;
  std::vector<BadLines> bad_;
  bool json_ = false;  // the file is one of lines
  BadLines bad_here_;  // of the file
  int64_t line_ = 0;   // that was read last, from 1
  size_t file_ = 0;
  int64_t documents_of_file_ = 0, bytes_ = 0;
  std::string buffer_;  // text read but not yet handed out starts at at_
  size_t at_ = 0;
};

}  // namespace zrt::runtime::data
