#include "comm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/hash.h"

namespace zrt::comm {

namespace {

// Finds the first lines that differ, or, of long lines, what lies between two commas around the difference.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  constexpr size_t most = 120;
  const auto place = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto part = [&](const std::string& text) {
    const size_t before = place == 0 ? text.npos : text.find_last_of(",\n", place - 1);
    const size_t begin = before == text.npos ? 0 : before + 1,
                 end = std::min(text.find_first_of(",\n", place), text.size());
    return begin >= end ? std::string("nothing") : text.substr(begin, std::min(end - begin, most));
  };
  return {part(a), part(b)};
}

}  // namespace

void require_equal(Transport& transport, std::string_view what, const std::string& text,
                   std::chrono::milliseconds timeout) {
  core::Hash hash;
  hash.update(text.data(), text.size());
  const std::vector<std::string> all = transport.exchange(text.size() <= 32 ? text : "hash " + hash.hex(), timeout);
  size_t p = 1;
  while (p < all.size() && all[p] == all[0]) ++p;
  if (p >= all.size()) return;
  // All processes know by now, so all take part.
  const bool hashed =
      std::any_of(all.begin(), all.end(), [](const std::string& each) { return each.starts_with("hash "); });
  const std::vector<std::string> texts = hashed ? transport.exchange(text, timeout) : all;
  const auto [one, other] = first_difference(texts[0], texts[p]);
  throw core::ConfigError(
      fmt::format("{} differs between process 0 ({}) and process {} ({}); start all processes with the "
                  "same program, configuration file and options, on machines of the same kind",
                  what, one, p, other));
}

}  // namespace zrt::comm
