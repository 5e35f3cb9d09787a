// The stages of a pipeline as a table for people, and which of them a plan's text tells more of.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace zrt::runtime {

struct Plan;

// A text's choice among the stages of a pipeline: by default the table has the notable ones, and the fullest is told in
// full.
struct StagesShown {
  bool all = false;
  std::optional<int> stage;  // told in place of the fullest
};
// Reads "all" or a stage's number. Throws UsageError naming what is legal.
StagesShown stages_shown(const std::string& text, size_t stages);

size_t fullest_stage(const Plan& plan);  // of the device tier; the first of equal ones
size_t slowest_stage(const Plan& plan);  // the one that computes longest; the plan has a cluster
// The table lists all of up to eight stages; of more the first, the last, the fullest and the slowest, unless `all`.
std::vector<size_t> stages_listed(const Plan& plan, bool all);
std::string stage_table(const Plan& plan, bool all);
// Those that the text tells in full, in order.
std::vector<size_t> stages_told(const Plan& plan, const StagesShown& shown);

}  // namespace zrt::runtime
