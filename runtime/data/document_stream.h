// The documents of a list of text files, one after the other.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/input_files.h"
#include "runtime/data/text_check.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

// file: a file is a document. paragraph: blank lines separate documents and belong to none.
enum class Documents : uint8_t { file, paragraph };

// "file" or "paragraph". Throws ConfigError.
Documents parse_documents(const std::string& name);

// A file of which a few bytes are not UTF-8.
struct DamagedText {
  std::string path;
  int64_t bytes = 0, first = 0;  // how many, and the offset of the first
};

class DocumentStream {
 public:
  // on_read is called after every chunk with the file it came from and all bytes of text read so far; may be empty.
  using OnRead = std::function<void(const std::string& path, int64_t bytes)>;
  DocumentStream(const std::vector<InputFile>& files, Documents documents, OnRead on_read);

  // The next document, never empty nor white space alone; false at the end. Throws DataError naming the file when it
  // cannot be read, is no text (text_check.h), holds none although it was named, or holds a document above 2^31 - 2
  // bytes.
  bool next(std::string& document);

  const std::string& path() const { return files_[file_].path; }         // of the last document
  const std::vector<SkippedInput>& skipped() const { return skipped_; }  // files of folders without text
  const std::vector<DamagedText>& damaged() const { return damaged_; }

 private:
  bool next_in_file(std::string& document);
  bool next_paragraph(std::string& document);
  bool fill();
  void append(std::string& document, const char* text, size_t bytes) const;
  void open_next();

  const std::vector<InputFile>& files_;
  Documents documents_;
  OnRead on_read_;
  std::optional<TextReader> reader_;
  std::optional<TextCheck> check_;
  bool begun_ = false;  // something was read of the file
  std::vector<SkippedInput> skipped_;
  std::vector<DamagedText> damaged_;
  size_t file_ = 0;
  int64_t documents_of_file_ = 0, bytes_ = 0;
  std::string buffer_;  // text read but not yet handed out starts at at_
  size_t at_ = 0;
};

}  // namespace zrt::runtime::data
