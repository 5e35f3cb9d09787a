// Log-likelihoods of choices by a model on any mesh, and what follows from them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/train/tasks/choice_tokens.h"
#include "runtime/train/trainer.h"

namespace zrt::runtime {

// The configuration with which a mesh scores: each data-parallel rank takes one text at a time.
Config one_text_per_rank(const Config& config);

// The sum over a choice's tokens of their log-probabilities (nats) given all before them, by choice. The session has
// the program `eval` of one_text_per_rank() and reads batches through `filler`, which is empty afterwards. Every
// process gets all of them. `progress`, which may be empty, hears how many are done. Collective.
std::vector<double> log_likelihoods(Session& session, BatchFiller& filler, const std::vector<ChoiceTokens>& choices,
                                    const std::function<void(size_t done)>& progress = {});

struct ItemScore {
  std::vector<double> log_likelihoods;  // by choice
  std::vector<int64_t> tokens, bytes;   // of the choices
  size_t gold = 0;
  // The right choice has the highest sum, the highest for each of its bytes, for each of its tokens; of equals the
  // first counts.
  bool right = false, right_by_bytes = false, right_by_tokens = false;
};
std::vector<ItemScore> score_items(const std::vector<TaskItem>& items, const std::vector<ChoiceTokens>& choices,
                                   const std::vector<double>& log_likelihoods);

struct TaskResult {
  std::string task{};
  int64_t items = 0, right = 0, right_by_bytes = 0, right_by_tokens = 0;
  int64_t cut = 0;     // choices whose context was cut
  int64_t tokens = 0;  // of all choices
  double share(int64_t count) const { return static_cast<double>(count) / static_cast<double>(items); }
  double standard_error(int64_t count) const;  // of that share; 0 for one item
};
// By task, in the order of their first items, which are of `unnamed` where the lines name none; then, if there are
// several, of all items, as "all".
std::vector<TaskResult> task_results(const std::vector<TaskItem>& items, const std::vector<ChoiceTokens>& choices,
                                     const std::vector<ItemScore>& scores, const std::string& unnamed);

std::string to_json(const std::vector<TaskResult>& results);
std::string to_json_line(const TaskItem& item, const ItemScore& score, const std::string& unnamed);

}  // namespace zrt::runtime
