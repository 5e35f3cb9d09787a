#include "core/keys/problems.h"

#include <algorithm>
#include <limits>

namespace zrt::core::keys {

void Problems::add(const ConfigError& error) {
  const auto* refusal = dynamic_cast<const Refusal*>(&error);
  const int line = refusal == nullptr || refusal->line == 0 ? std::numeric_limits<int>::max() : refusal->line;
  all_.push_back({line, error.what()});
}

void Problems::raise(const std::string& file) const {
  if (all_.empty()) return;
  std::vector<Problem> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) { return a.line < b.line; });
  if (sorted.size() == 1) throw ConfigError(sorted[0].text);
  std::string text = std::to_string(sorted.size()) + " things are wrong with the configuration " + file + ":";
  for (size_t i = 0; i < std::min(most_shown, sorted.size()); ++i) text += "\n  - " + sorted[i].text;
  if (sorted.size() > most_shown) text += "\n  and " + std::to_string(sorted.size() - most_shown) + " more.";
  throw ConfigError(text);
}

}  // namespace zrt::core::keys
