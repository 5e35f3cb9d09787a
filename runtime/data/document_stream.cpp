#include "runtime/data/document_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/utf8.h"
#include "runtime/data/chat/chat_line.h"
#include "runtime/data/json_lines.h"

namespace zrt::runtime::data {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 20;
// A document and its end-of-document id must be countable in 31 bits.
constexpr size_t largest_document = std::numeric_limits<int32_t>::max() - 1;
constexpr size_t largest_line = size_t{1} << 32;

bool is_blank(const char* line, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n' && line[i] != '\f') return false;
  return true;
}

bool is_white_space(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = std::max<size_t>(core::utf8_character(text), 1);
    const bool space = bytes == 1 ? std::string_view(" \t\r\n\f\v").find(text[0]) != std::string_view::npos
                                  : core::is_wide_space(text.substr(0, bytes));
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

DocumentStream::DocumentStream(const std::vector<InputFile>& files, Documents documents, const LineOptions& lines,
                               OnRead on_read)
    : files_(files),
      documents_(documents),
      field_(lines.field),
      skip_bad_(lines.skip_bad),
      chat_(lines.chat),
      on_read_(std::move(on_read)) {}

bool DocumentStream::next(std::string& document) {
  for (; file_ < files_.size(); ++file_) {
    if (!reader_) open_next();
    while (next_in_file(document)) {
      if (is_white_space(document)) continue;
      ++documents_of_file_;
      return true;
    }
    reader_.reset();
    end_file();
  }
  return false;
}

DocumentPlace DocumentStream::place() const {
  return {&files_[file_].path, json_ ? "line" : "document", json_ ? line_ : documents_of_file_};
}

void DocumentStream::end_file() {
  const InputFile& file = files_[file_];
  if (!json_) check_->end();
  if (check_->invalid() > 0) damaged_.push_back({file.path, check_->invalid(), check_->first_invalid()});
  if (bad_here_.count > 0) bad_.push_back(bad_here_);
  if (documents_of_file_ > 0) return;
  if (bad_here_.count > 0) check_->refuse_other();
  if (!file.named) return skipped_.push_back({file.path, "no text"});
  if (bad_here_.count > 0)
    throw core::DataError(fmt::format("{}: none of its lines can be read; line {}, the first of {}: {}.", file.path,
                                      bad_here_.first, bad_here_.count, bad_here_.reason));
  throw core::DataError(
      fmt::format("{}: the file holds no text: it is empty or white space alone. Leave it out.", file.path));
}

void DocumentStream::open_next() {
  reader_.emplace(files_[file_].path);
  check_.emplace(files_[file_].path);
  begun_ = false;
  documents_of_file_ = 0;
  json_ = !json_ending(files_[file_].path).empty();
  bad_here_ = {files_[file_].path, 0, 0, ""};
  line_ = 0;
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
  size_t mark = 0;
  if (count > 0 && !begun_) mark = json_ ? check_->begin_any(piece) : check_->begin(piece);
  begun_ = true;
  if (!json_) check_->add(piece);
  buffer_.erase(had, mark);
  bytes_ += static_cast<int64_t>(count);
  if (on_read_ && count > 0) on_read_(files_[file_].path, bytes_);
  return count > 0;
}

void DocumentStream::append(std::string& document, const char* text, size_t bytes) const {
  if (document.size() + bytes > largest_document)
    throw core::DataError(fmt::format("{}: {}a document of more than {} bytes cannot be stored. Split the {}.",
                                      files_[file_].path, json_ ? fmt::format("line {}: ", line_) : "",
                                      largest_document,
                                      json_ ? "text into several lines" : "file, or make every paragraph a document"));
  document.append(text, bytes);
}

bool DocumentStream::next_in_file(std::string& document) {
  document.clear();
  if (json_) return next_object(document);
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

bool DocumentStream::next_object(std::string& document) {
  for (std::string_view line; next_line(line);) {
    ++line_;
    if (is_blank(line.data(), line.size())) continue;
    const std::string problem = read_line(line, document);
    if (problem.empty()) {
      if (document.size() > largest_document) append(document, document.data(), 0);  // throws
      return true;
    }
    // A list that is whole is a bad line like others; one that goes on is a file of another kind.
    if (!skip_bad_ || !JsonField::is_json(line)) check_->refuse_other();
    take_bad_line(problem);
  }
  document.clear();
  return false;
}

// Returns what is wrong with the line, or "".
std::string DocumentStream::read_line(std::string_view line, std::string& document) {
  if (chat_ == nullptr) return field_.read(line, document);
  try {
    chat::Conversation conversation = chat::read_conversation(*chat_, line);
    document = std::move(conversation.text);
    counts_ = std::move(conversation.counts);
    return "";
  } catch (const core::ConfigError& error) {
    return error.what();
  }
}

// The line comes without its newline and is valid until the next call.
bool DocumentStream::next_line(std::string_view& line) {
  size_t searched = at_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      return true;
    }
    searched = buffer_.size() - at_;
    if (searched > largest_line)
      throw core::DataError(fmt::format(
          "{}: line {} has more than {} bytes, the most that is read. Are its objects on lines of their own?",
          files_[file_].path, line_ + 1, largest_line));
    if (fill()) continue;
    line = buffer_;  // the last line has no newline
    at_ = buffer_.size();
    return !line.empty();
  }
}

void DocumentStream::take_bad_line(const std::string& reason) {
  if (!skip_bad_)
    throw core::DataError(fmt::format("{}: line {}: {}. --skip-bad leaves such lines out, and says how many.",
                                      files_[file_].path, line_, reason));
  if (bad_here_.count++ == 0) bad_here_.first = line_, bad_here_.reason = reason;
}

}  // namespace zrt::runtime::data
