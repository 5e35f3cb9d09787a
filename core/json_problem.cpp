#include "core/json_problem.h"

#include "core/printable.h"

namespace zrt::core {
namespace {

// Returns what stands between two marks; "" where the first one is missing.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t at = text.find(begin);
  if (at == text.npos) return "";
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find(end));
}

}  // namespace

std::string json_problem(std::string_view text) {
  constexpr size_t most = 40;
  const std::string_view place = between(text, "parse error at ", ": ");
  std::string result = place.empty() ? "it cannot be read" : std::string(place) + " cannot be read";
  if (text.find("unexpected end of input") != text.npos) return result + ": the text ends there";
  size_t read = text.find("last read: '");
  if (read == text.npos) return result;
  read += std::string_view("last read: '").size();
  std::string_view last = text.substr(read, text.rfind('\'') > read ? text.rfind('\'') - read : text.npos);
  const bool cut = last.size() > most;
  while (last.size() > most || (!last.empty() && (static_cast<unsigned char>(last.front()) & 0xC0) == 0x80)) {
    last.remove_prefix(1);
  }
  result += ", behind '";
  result += cut ? "…" : "";
  result += printable(last);
  return result + "'";
}

}  // namespace zrt::core
