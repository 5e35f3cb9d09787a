#include <fmt/format.h>

#include "core/ledger.h"
#include "runtime/plan/suggest.h"

namespace zrt::runtime {

std::string Suggestion::options() const {
  std::string text;
  for (const auto& [key, value] : changes) {
    text += fmt::format("{}{}", text.empty() ? "" : " ",
                        key == "ranks" ? "--ranks " + value : fmt::format("--set {}={}", key, value));
  }
  return text;
}

std::string suggestions_text(const std::vector<Suggestion>& suggestions) {
  if (suggestions.empty()) {
    return "No higher stage, smaller microbatch, smaller unit or larger number of ranks fits; use a smaller model, or "
           "more memory.";
  }
  std::string text = "What fits, the cheapest first:";
  for (const Suggestion& s : suggestions) {
    text += fmt::format("\n  {}\n    peak {} bytes ({}) a rank; a rank receives {} a step", s.options(), s.peaks[0],
                        core::format_bytes(s.peaks[0]), core::format_bytes(s.comm_bytes));
    if (s.peaks[1] > 0) text += fmt::format("; {} of host memory", core::format_bytes(s.peaks[1]));
    if (s.peaks[2] > 0) text += fmt::format("; {} on NVMe", core::format_bytes(s.peaks[2]));
    if (s.seconds_per_step) text += fmt::format("; {:.4g} s a step", *s.seconds_per_step);
  }
  return text;
}

}  // namespace zrt::runtime
