#include "models/data/json_lines.h"

#include <nlohmann/json.hpp>

#include "models/data/text_reader.h"

namespace zrt::models::data {

namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr int lines_looked_at = 16;

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

bool is_json(std::string_view line) {
  return nlohmann::json::accept(line.begin(), line.end());
}

}  // namespace

bool has_json_lines_name(std::string name) {
  if (has_suffix(name, ".gz")) name.resize(name.size() - 3);
  return has_suffix(name, ".jsonl") || has_suffix(name, ".ndjson") || has_suffix(name, ".json");
}

bool are_json_lines(std::string_view text) {
  int objects = 0;
  bool list = false;
  while (!text.empty() && objects < lines_looked_at) {
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
    if (!line.starts_with('{') || !(is_json(line) || (!whole && begins_object(line)))) return false;
    ++objects;
  }
  return objects > 0;
}

}  // namespace zrt::models::data
