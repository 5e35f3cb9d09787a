#include "models/data/json_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/data/text_reader.h"

namespace zrt::models::data {

namespace {

constexpr std::string_view blanks = " \t\r\n\f\v";
constexpr size_t longest_line = 1 << 16;  // that is parsed

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

// {"key": … of a line that goes on.
bool begins_object(std::string_view line) {
  line = trimmed(line.substr(1));
  if (!line.starts_with('"')) return false;
  size_t end = 1;
  while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
  return end < line.size() && trimmed(line.substr(end + 1)).starts_with(':');
}

// The same, or a list whose first value is an object, a text or a number.
bool begins_json(std::string_view line) {
  if (line.starts_with('{')) return begins_object(line);
  line.remove_prefix(std::min(line.find_first_not_of(std::string_view("[ \t")), line.size()));
  if (line.starts_with('{')) return begins_object(line);
  return !line.empty() && std::string_view("\"-0123456789").find(line[0]) != std::string_view::npos;
}

bool is_json(std::string_view line) {
  return nlohmann::json::accept(line.begin(), line.end());
}

bool is_json_line(std::string_view line) {
  const bool list = line.starts_with('['), more = line.ends_with(',');
  if (more) line = trimmed(line.substr(0, line.size() - 1));
  const bool worth = list ? line.find_first_of("{\"") != line.npos || (!more && line.find(',') != line.npos)
                          : line.find(':') != line.npos;
  return worth && is_json(line);
}

}  // namespace

std::string json_ending(std::string name) {
  if (has_suffix(name, ".gz")) name.resize(name.size() - 3);
  for (const char* ending : {".jsonl", ".ndjson", ".json"})
    if (has_suffix(name, ending)) return ending;
  return "";
}

bool are_json_lines(std::string_view text) {
  int objects = 0;
  bool list = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const bool whole = end != text.npos;
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(whole ? end + 1 : text.size());
    if (objects == 0 && line.starts_with('[')) {
      if (trimmed(line.substr(1)).starts_with('{') && is_json(line)) return true;
      line = trimmed(line.substr(1));
      list = true;
    }
    if (list && (line.ends_with(',') || line.ends_with(']'))) line = trimmed(line.substr(0, line.size() - 1));
    if (line.empty()) continue;
    // The last line may be whole without a newline, where the file ends with it.
    if (!line.starts_with('{') || !(is_json_line(line) || (!whole && begins_object(line)))) return false;
    ++objects;
  }
  return objects > 0;
}

void JsonLineCount::take(std::string_view line, bool cut) {
  line = trimmed(line);
  if (line.empty()) return;
  ++lines_;
  if (line[0] != '{' && line[0] != '[') return;
  if (!(cut ? begins_json(line) : is_json_line(line))) return;
  if (json_++ == 0) first_ = place_;
}

void JsonLineCount::add(std::string_view piece) {
  for (size_t at = 0; at < piece.size();) {
    const size_t end = std::min(piece.find('\n', at), piece.size());
    const bool whole = end < piece.size();
    const std::string_view part = piece.substr(at, end - at);
    if (whole && held_.empty()) {
      take(part.substr(0, longest_line), part.size() > longest_line);
    } else {
      const size_t room = longest_line - held_.size();
      held_ += part.substr(0, room);
      cut_ = cut_ || part.size() > room;
      if (whole) end_line();
    }
    at = end + (whole ? 1 : 0);
    if (whole) place_ = offset_ + static_cast<int64_t>(at);
  }
  offset_ += static_cast<int64_t>(piece.size());
}

void JsonLineCount::end_line() {
  take(held_, cut_);
  held_.clear();
  cut_ = false;
}

}  // namespace zrt::models::data
