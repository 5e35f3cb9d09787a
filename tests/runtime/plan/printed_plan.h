// A plan's text, read line by line, for tests that compare its figures with what is known of the plan otherwise.
#pragma once
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::testing {

std::string in_units(double bytes);  // "1.50 MiB"
inline std::string in_units(const nlohmann::json& bytes) {
  return in_units(bytes.get<double>());
}
std::string in_thousands(int64_t count);              // "1.50M"
std::set<size_t> layers_in(const std::string& text);  // of "embedding, layers 0–2, 5, head"

class PrintedLines {
 public:
  explicit PrintedLines(const std::string& text) {
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) lines_.push_back(line);
  }
  bool ended() const { return at_ == lines_.size(); }
  // Goes on to the next line where this one is like the pattern, whose groups part() has then.
  bool take(const std::string& pattern) {
    const bool found = !ended() && std::regex_match(lines_[at_], found_, std::regex(pattern));
    at_ += found;
    return found;
  }
  void need(const std::string& pattern) {
    INFO((ended() ? "the end" : lines_[at_]) << " should be " << pattern);
    REQUIRE(take(pattern));
  }
  bool has(size_t i) const { return found_[i].matched; }
  std::string part(size_t i) const { return found_[i].str(); }
  uint64_t number(size_t i) const { return std::stoull(part(i)); }
  double real(size_t i) const { return std::stod(part(i)); }

 private:
  std::vector<std::string> lines_;
  size_t at_ = 0;
  std::smatch found_;  // of one of the lines
};

// Checks where states of a stage live: bytes beside `rank`, an entry of the JSON, and statements beside the layout.
void check_homes(PrintedLines& lines, const nlohmann::json& rank, const StagePlan& stage);

// Checks the limits that hold, or what is short and what would fit.
void check_fit(PrintedLines& lines, const nlohmann::json& plan);
// Returns the entry of the JSON of any rank of a stage.
nlohmann::json rank_of_stage(const nlohmann::json& plan, size_t stage);

}  // namespace zrt::testing
