#include "runtime/data/json_lines.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace {

constexpr std::string_view blanks = " \t\r\n\f\v";
constexpr size_t longest_line = 1 << 16;  // that is parsed

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

// "key": … of a line that goes on.
bool begins_member(std::string_view line) {
  if (!line.starts_with('"')) return false;
  size_t end = 1;
  while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
  return end < line.size() && trimmed(line.substr(end + 1)).starts_with(':');
}

// The same, one member alone, or a list whose first value is an object, a text or a number.
bool begins_json(std::string_view line) {
  if (line.starts_with('"')) return begins_member(line);
  if (line.starts_with('{')) return begins_member(trimmed(line.substr(1)));
  line.remove_prefix(std::min(line.find_first_not_of(std::string_view("[ \t")), line.size()));
  if (line.starts_with('{')) return begins_member(trimmed(line.substr(1)));
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

// A line of a value that lies over several: `open` holds the brackets that are open before it, then those behind it.
bool continues(std::string& open, std::string_view line) {
  std::string after = open;
  size_t from = open.empty() ? 0 : open.size() - 1;  // the outermost bracket that the line has to do with
  bool text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') text = !text;
    if (text && c == '\\') ++i;
    if (text) continue;
    if (c == '{' || c == '[') after += c;
    if (c != '}' && c != ']') continue;
    if (after.empty()) return false;
    after.pop_back();
    from = std::min(from, after.empty() ? 0 : after.size() - 1);
  }
  // Values that stand in an outer object have their key on another line.
  std::string whole;
  for (size_t i = from; i < open.size(); ++i)
    whole += open[i] == '{' && i + 1 < open.size() ? "{\"\":" : open.substr(i, 1);
  if (line.starts_with(',')) line.remove_prefix(1);
  if (line.ends_with(',')) line.remove_suffix(1);
  whole += line;
  for (size_t i = after.size(); i-- > from;) whole += after[i] == '{' ? '}' : ']';
  if (!is_json(whole)) return false;
  open = after;
  return true;
}

bool begins_value(std::string_view line) {
  return line[0] == '{' || line[0] == '[';
}

}  // namespace

std::string json_ending(std::string name) {
  name = uncompressed_name(name);
  const size_t dot = std::min(name.rfind('.'), name.size());
  std::string lower = name.substr(dot);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool json = lower == ".jsonl" || lower == ".ndjson" || lower == ".json";
  return json ? name.substr(dot) : "";
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
    if (!line.starts_with('{') || !(is_json_line(line) || (!whole && begins_json(line)))) return false;
    ++objects;
  }
  return objects > 0;
}

bool JsonLineCount::takes(std::string_view line, bool cut) {
  if (cut) return (!open_.empty() || begins_value(line)) && begins_json(line);
  if (!open_.empty() && continues(open_, line)) return true;
  open_.clear();
  return begins_value(line) && (is_json_line(line) || (continues(open_, line) && !open_.empty()));
}

void JsonLineCount::take(std::string_view line, bool cut) {
  line = trimmed(line);
  if (line.empty()) return;
  const bool json = takes(line, cut);
  if (line.find_first_not_of("[]{}, \t") == line.npos) return;
  ++lines_;
  if (json && json_++ == 0) first_ = place_;
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

}  // namespace zrt::runtime::data
