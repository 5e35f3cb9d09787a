#include "runtime/data/document_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/utf8.h"

namespace zrt::runtime::data {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 20;
// A document and its end-of-document id must be countable in 31 bits.
constexpr size_t largest_document = std::numeric_limits<int32_t>::max() - 1;

bool is_blank(const char* line, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n' && line[i] != '\f') return false;
  return true;
}

// White_Space of Unicode beyond one byte: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and
// U+3000.
bool is_wide_space(std::string_view character) {
  if (character.size() == 2) return character == "\u0085" || character == "\u00a0";
  if (character.size() != 3) return false;
  if (character.starts_with("\xe2\x80")) {
    const auto last = static_cast<uint8_t>(character[2]);
    return last <= 0x8a || last == 0xa8 || last == 0xa9 || last == 0xaf;
  }
  return character == "\u1680" || character == "\u205f" || character == "\u3000";
}

bool is_white_space(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = std::max<size_t>(core::utf8_character(text), 1);
    const bool space = bytes == 1 ? std::string_view(" \t\r\n\f\v").find(text[0]) != std::string_view::npos
                                  : is_wide_space(text.substr(0, bytes));
    if (!space) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

Documents parse_documents(const std::string& name) {
  if (name == "file") return Documents::file;
  if (name == "paragraph") return Documents::paragraph;
  throw core::ConfigError(fmt::format("documents is '{}'; legal are file and paragraph.", name));
}

DocumentStream::DocumentStream(const std::vector<InputFile>& files, Documents documents, OnRead on_read)
    : files_(files), documents_(documents), on_read_(std::move(on_read)) {}

bool DocumentStream::next(std::string& document) {
  for (; file_ < files_.size(); ++file_) {
    if (!reader_) open_next();
    while (next_in_file(document)) {
      if (is_white_space(document)) continue;
      ++documents_of_file_;
      return true;
    }
    reader_.reset();
    check_->end();
    if (check_->invalid() > 0) damaged_.push_back({files_[file_].path, check_->invalid(), check_->first_invalid()});
    if (documents_of_file_ > 0) continue;
    if (files_[file_].named)
      throw core::DataError(fmt::format("{}: the file holds no text: it is empty or white space alone. Leave it out.",
                                        files_[file_].path));
    skipped_.push_back({files_[file_].path, "no text"});
  }
  return false;
}

void DocumentStream::open_next() {
  reader_.emplace(files_[file_].path);
  check_.emplace(files_[file_].path);
  begun_ = false;
  documents_of_file_ = 0;
  buffer_.clear();
  at_ = 0;
}

// Reads one more chunk behind what is left in the buffer; false at the end of the file.
bool DocumentStream::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + chunk_bytes);
  const size_t count = reader_->read(buffer_.data() + had, chunk_bytes);
  buffer_.resize(had + count);
  const std::string_view piece(buffer_.data() + had, count);
  const size_t mark = count > 0 && !begun_ ? check_->begin(piece) : 0;
  begun_ = true;
  check_->add(piece);
  buffer_.erase(had, mark);
  bytes_ += static_cast<int64_t>(count);
  if (on_read_ && count > 0) on_read_(files_[file_].path, bytes_);
  return count > 0;
}

void DocumentStream::append(std::string& document, const char* text, size_t bytes) const {
  if (document.size() + bytes > largest_document)
    throw core::DataError(fmt::format(
        "{}: a document of more than {} bytes cannot be stored. Split the file, or make every paragraph a document.",
        files_[file_].path, largest_document));
  document.append(text, bytes);
}

bool DocumentStream::next_in_file(std::string& document) {
  document.clear();
  if (documents_ == Documents::paragraph) return next_paragraph(document);
  while (fill()) {
    append(document, buffer_.data(), buffer_.size());
    at_ = buffer_.size();
  }
  return !document.empty();
}

bool DocumentStream::next_paragraph(std::string& document) {
  size_t searched = at_;
  for (bool more = true; more;) {
    size_t end = buffer_.find('\n', searched);
    if (end == std::string::npos) {
      const size_t pending = buffer_.size() - at_;
      if (pending > largest_document) append(document, buffer_.data() + at_, pending);  // throws
      more = fill();
      searched = more ? pending : 0;
      if (more) continue;
      end = buffer_.size() - 1;  // the last line has no newline; there may be none at all
      if (buffer_.empty()) break;
    }
    const size_t bytes = end + 1 - at_;
    const bool blank = is_blank(buffer_.data() + at_, bytes);
    if (!blank) append(document, buffer_.data() + at_, bytes);
    at_ = searched = end + 1;
    if (blank && !document.empty()) return true;
  }
  return !document.empty();
}

}  // namespace zrt::runtime::data
