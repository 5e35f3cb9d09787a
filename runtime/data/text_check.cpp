#include "runtime/data/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"
#include "runtime/data/binary_kinds.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace {

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

// JSON that no reader of lines takes.
constexpr const char* unpacked =
    "Give lines of one object each a name that ends in .jsonl, and --field NAME says which of its texts is read; "
    "`jq -c .` makes such lines of objects, and `jq -c \".[]\"` of a list.";

// The encoding of a text of Latin letters in units of two or four bytes: all but one byte of a unit are 0 throughout.
std::optional<std::string> wide_encoding(std::string_view head) {
  for (const size_t unit : {size_t{4}, size_t{2}}) {
    const size_t units = head.size() / unit;
    if (units < 2) continue;
    std::vector<size_t> zeros(unit, 0);
    for (size_t i = 0; i < units * unit; ++i) zeros[i % unit] += head[i] == '\0' ? 1 : 0;
    const auto mostly = [&](size_t place) { return 5 * zeros[place] >= 4 * units; };
    const auto hardly = [&](size_t place) { return 20 * zeros[place] <= units; };
    bool little = hardly(0), big = hardly(unit - 1);
    for (size_t place = 0; place + 1 < unit; ++place) little = little && mostly(place + 1), big = big && mostly(place);
    if (little || big) return fmt::format("UTF-{}{}", 8 * unit, little ? "LE" : "BE");
  }
  return std::nullopt;
}

std::string convert(const std::string& path, const std::string& encoding) {
  return fmt::format("Convert it first: {} {} | iconv -f {} -t UTF-8 > FILE.txt", printing_program(path), path,
                     encoding);
}

// Bytes from `at` that are ASCII and not 0, eight at a time.
size_t plain_bytes(std::string_view text, size_t at) {
  constexpr uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
  const size_t first = at;
  for (uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if (((word | (word - ones)) & high) != 0) break;
  }
  return at - first;
}

}  // namespace

TextCheck::TextCheck(std::string path) : path_(std::move(path)) {}

void TextCheck::refuse(int64_t offset, const std::string& what) const {
  throw core::DataError(fmt::format("{}: byte {}{}: {}", path_, offset,
                                    compression_ending(path_).empty() ? "" : " of the decompressed text", what));
}

void TextCheck::refuse_zero(int64_t offset) const {
  if (const auto encoding = wide_encoding(head_))
    refuse(offset, fmt::format("the bytes that are 0 say {}. {}.", *encoding, convert(path_, *encoding)));
  const auto kind = lettered_kind(head_, path_);
  refuse(offset, kind ? fmt::format("it is {}, not text. {}", kind->name, kind->advice)
                      : "it is 0, which no text has: the file is binary, or in another encoding than UTF-8. Turn it "
                        "into text first; `tr -d '\\000'` removes zeros that are there by mistake.");
}

size_t TextCheck::begin(std::string_view first) {
  const size_t mark = begin_any(first);
  if (are_json_lines(first.substr(mark)))
    refuse(static_cast<int64_t>(mark),
           fmt::format("it is JSON, whose braces and keys a model would learn. {}", unpacked));
  return mark;
}

size_t TextCheck::begin_any(std::string_view first) {
  head_ = first.substr(0, binary_head_bytes);
  if (const std::string encoding = marked_encoding(first); !encoding.empty())
    refuse(0, fmt::format("the byte order mark says {}. {}.", encoding, convert(path_, encoding)));
  if (const auto kind = binary_kind(first, path_))
    refuse(0, fmt::format("it is {}, not text. {}", kind->name, kind->advice));
  return first.starts_with(utf8_mark) ? utf8_mark.size() : 0;
}

void TextCheck::refuse_other() const {
  if (const size_t zero = head_.find('\0'); zero != head_.npos) refuse_zero(static_cast<int64_t>(zero));
  if (const auto kind = lettered_kind(head_, path_))
    refuse(0, fmt::format("it is {}, not text. {}", kind->name, kind->advice));
  const size_t first = head_.find_first_not_of(std::string(utf8_mark) + " \t\r\n");
  if (first == head_.npos || head_[first] != '[') return;
  refuse(
      static_cast<int64_t>(first),
      fmt::format("here begins a list, and JSON is read by lines, an object on each. Convert it first: {} {} | jq -c "
                  "\".[]\" > FILE.jsonl",
                  printing_program(path_), path_));
}

// Terminals' escapes and the white space of ASCII stand in texts.
bool controls(char c) {
  return static_cast<unsigned char>(c) < 0x20 && !(c >= '\t' && c <= '\r') && c != '\x1b';
}

void TextCheck::add(std::string_view piece) {
  json_.add(piece);
  if (const auto found = std::count_if(piece.begin(), piece.end(), controls); found > 0) {
    const auto first = std::find_if(piece.begin(), piece.end(), controls) - piece.begin();
    if (controls_ == 0) first_control_ = offset_ + static_cast<int64_t>(pending_.size()) + first;
    controls_ += found;
  }
  if (pending_.empty()) return check(piece, false);
  const std::string joined = std::exchange(pending_, {}) + std::string(piece);
  check(joined, false);
}

// A text that is not whole may end inside a character, which is then kept for the next call.
void TextCheck::check(std::string_view text, bool whole) {
  size_t at = 0;
  while (at < text.size()) {
    at += plain_bytes(text, at);
    if (at == text.size()) break;
    if (text[at] == '\0') refuse_zero(offset_ + static_cast<int64_t>(at));
    const size_t character = core::utf8_character(text.substr(at));
    if (character == 0 && !whole && text.size() - at < 4) break;
    if (character == 0 && invalid_++ == 0) first_invalid_ = offset_ + static_cast<int64_t>(at);
    at += std::max<size_t>(character, 1);
  }
  pending_ = text.substr(at);
  offset_ += static_cast<int64_t>(at);
}

void TextCheck::refuse_controls() const {
  if (controls_ * tolerated <= offset_) return;
  refuse(first_control_,
         fmt::format("it is a control character, as are {} of the file's {} bytes; more than one in {} is no text: the "
                     "file is binary, or has marks between its parts. Turn it into text first; `tr -d "
                     "'\\001-\\010\\016-\\032\\034-\\037'` removes such bytes.",
                     controls_, offset_, tolerated));
}

void TextCheck::end() {
  const std::string last = std::exchange(pending_, {});
  check(last, true);
  json_.end();
  if (json_.mostly_json())
    refuse(json_.first(),
           fmt::format("here begins the first of {} lines that are JSON, of {} that hold more than brackets; a "
                       "model would learn braces and keys. {}",
                       json_.json(), json_.lines(), unpacked));
  if (invalid_ * tolerated <= offset_) return refuse_controls();
  if (const auto kind = lettered_kind(head_, path_))
    refuse(first_invalid_, fmt::format("it is {}, not text. {}", kind->name, kind->advice));
  refuse(first_invalid_,
         fmt::format("it is not UTF-8, nor are {} of the file's {} bytes; more than one in {} is no text. {}, if its "
                     "encoding is Latin-1 (`file` guesses it).",
                     invalid_, offset_, tolerated, convert(path_, "ISO-8859-1")));
}

}  // namespace zrt::runtime::data
