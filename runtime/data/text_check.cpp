#include "runtime/data/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace {

constexpr size_t head_bytes = 4096;

struct Signature {
  std::string_view bytes;
  const char* kind;
};
using namespace std::string_view_literals;
// Text may begin with the letters of some; then only what follows tells.
constexpr Signature binary_files[] = {
    {"\x7f"
     "ELF"sv,
     "an ELF program"},
    {"PK\x03\x04"sv, "a zip archive (or a document that is one)"},
    {"\x1f\x8b"sv, "gzip data inside"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz data"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data"},
    {"\x89PNG"sv, "a PNG picture"},
    {"\xff\xd8\xff"sv, "a JPEG picture"},
    {"SQLite format 3\0"sv, "a SQLite database"},
    {"MMIDIDX\0"sv, "the index of a dataset"},
    {"%PDF-1"sv, "a PDF"},
    {"%PDF-2"sv, "a PDF"},
    {"version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS, whose file `git lfs pull` brings"}};
constexpr Signature lettered_files[] = {{"PAR1"sv, "a parquet file"},  {"BZh"sv, "bzip2 data"},
                                        {"ARROW1"sv, "an Arrow file"}, {"Obj\x01"sv, "an Avro file"},
                                        {"GIF8"sv, "a GIF picture"},   {"RIFF"sv, "a RIFF file"}};
constexpr Signature marked[] = {{"\xff\xfe\0\0"sv, "UTF-32LE"},
                                {"\0\0\xfe\xff"sv, "UTF-32BE"},
                                {"\xff\xfe"sv, "UTF-16LE"},
                                {"\xfe\xff"sv, "UTF-16BE"}};
constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

constexpr const char* unpacked =
    "into text first: the field that holds the text of each object, as a file of its own, or as a paragraph "
    "for --documents paragraph.";

const char* kind_of(std::string_view head, const Signature* first, const Signature* last) {
  const auto* found =
      std::find_if(first, last, [&](const Signature& signature) { return head.starts_with(signature.bytes); });
  return found == last ? nullptr : found->kind;
}

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
  const char* read = has_suffix(path, ".gz") ? "zcat" : "cat";
  return fmt::format("Convert it first: {} {} | iconv -f {} -t UTF-8 > FILE.txt", read, path, encoding);
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
                                    has_suffix(path_, ".gz") ? " of the decompressed text" : "", what));
}

void TextCheck::refuse_zero(int64_t offset) const {
  if (const auto encoding = wide_encoding(head_))
    refuse(offset, fmt::format("the bytes that are 0 say {}. {}.", *encoding, convert(path_, *encoding)));
  const char* kind = kind_of(head_, std::begin(lettered_files), std::end(lettered_files));
  refuse(offset, kind != nullptr
                     ? fmt::format("it is {}, not text. Turn it into text first.", kind)
                     : "it is 0, which no text has: the file is binary, or in another encoding than UTF-8. Turn it "
                       "into text first; `tr -d '\\000'` removes zeros that are there by mistake.");
}

size_t TextCheck::begin(std::string_view first) {
  head_ = first.substr(0, head_bytes);
  if (const char* encoding = kind_of(first, std::begin(marked), std::end(marked)))
    refuse(0, fmt::format("the byte order mark says {}. {}.", encoding, convert(path_, encoding)));
  if (const char* kind = kind_of(first, std::begin(binary_files), std::end(binary_files)))
    refuse(0, fmt::format("it is {}, not text. Turn it into text first.", kind));
  const size_t mark = first.starts_with(utf8_mark) ? utf8_mark.size() : 0;
  if (are_json_lines(first.substr(mark)))
    refuse(static_cast<int64_t>(mark),
           fmt::format("it is JSON, whose braces and keys a model would learn. Turn it {}", unpacked));
  if (const std::string ending = json_ending(path_); !ending.empty())
    throw core::DataError(fmt::format(
        "{}: its name ends in {}, which says JSON, but its first lines are no JSON objects. Give plain text a "
        "name that ends in .txt{}; turn JSON of another layout {}",
        path_, ending, has_suffix(path_, ".gz") ? ".gz" : "", unpacked));
  return mark;
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
                       "model would learn braces and keys. Turn it {}",
                       json_.json(), json_.lines(), unpacked));
  if (invalid_ * tolerated <= offset_) return refuse_controls();
  const char* kind = kind_of(head_, std::begin(lettered_files), std::end(lettered_files));
  if (kind != nullptr) refuse(first_invalid_, fmt::format("it is {}, not text. Turn it into text first.", kind));
  refuse(first_invalid_,
         fmt::format("it is not UTF-8, nor are {} of the file's {} bytes; more than one in {} is no text. {}, if its "
                     "encoding is Latin-1 (`file` guesses it).",
                     invalid_, offset_, tolerated, convert(path_, "ISO-8859-1")));
}

}  // namespace zrt::runtime::data
