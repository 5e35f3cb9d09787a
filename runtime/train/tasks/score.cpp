#include "runtime/train/tasks/score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/masking.h"

namespace zrt::runtime {
namespace {

// A text and its targets: of the choice alone.
void fill_row(const ChoiceTokens& choice, int64_t sequence, const data::SampleRows& to) {
  std::fill_n(to.tokens, sequence, 0);
  std::fill_n(to.targets, sequence, models::not_counted);
  const auto inputs = static_cast<int64_t>(choice.ids.size()) - 1;
  std::copy_n(choice.ids.begin(), inputs, to.tokens);
  const int64_t first = inputs - choice.counted;
  std::copy_n(choice.ids.end() - choice.counted, choice.counted, to.targets + first);
}

// The sum of token losses by data-parallel rank, as the ranks told each other for the mean.
std::vector<double> losses_by_rank(Session& session) {
  const core::Mesh& mesh = session.stages().front().layout.mesh;
  const std::vector<std::byte> bytes = session.executor(0).read("control shares");
  std::vector<double> sums(static_cast<size_t>(mesh.data()));
  for (int rank = 0; rank < mesh.world(); ++rank) {
    if (mesh.place(core::Axis::tensor, rank) != 0) continue;
    ControlShare share;
    std::memcpy(&share, bytes.data() + static_cast<size_t>(rank) * sizeof share, sizeof share);
    sums[static_cast<size_t>(mesh.place(core::data_axes, rank))] += share.loss_sum;
  }
  return sums;
}

size_t best(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

size_t best_by(const ItemScore& score, const std::vector<int64_t>& lengths) {
  std::vector<double> values = score.log_likelihoods;
  for (size_t c = 0; c < values.size(); ++c) values[c] /= static_cast<double>(lengths[c]);
  return best(values);
}

}  // namespace

Config one_text_per_rank(const Config& config) {
  const int64_t samples = config.batch.accumulation * config.mesh.data();
  return reconfigured(config,
                      {"train_micro_batch_size_per_gpu=1", "train_batch_size=" + std::to_string(samples),
                       "gradient_accumulation_steps=" + std::to_string(config.batch.accumulation)},
                      config.ranks, {});
}

std::vector<double> log_likelihoods(Session& session, BatchFiller& filler, const std::vector<ChoiceTokens>& choices,
                                    const std::function<void(size_t done)>& progress) {
  const Layout& layout = session.stages().front().layout;
  const auto ranks = static_cast<size_t>(layout.mesh.data());
  size_t first = 0;
  filler = [&](int rank, uint32_t, const data::SampleRows& to) {
    const size_t choice = first + static_cast<size_t>(layout.mesh.place(core::data_axes, rank));
    to.count_positions(layout.sequence);
    if (choice < choices.size()) return fill_row(choices[choice], layout.sequence, to);
    std::fill_n(to.tokens, layout.sequence, 0);
    std::fill_n(to.targets, layout.sequence, models::not_counted);
  };
  std::vector<double> result(choices.size());
  for (; first < choices.size(); first += ranks) {
    session.run("eval", session.executor(0).control().inputs);
    const std::vector<double> losses = losses_by_rank(session);
    const size_t count = std::min(ranks, choices.size() - first);
    for (size_t r = 0; r < count; ++r) result[first + r] = -losses[r];
    if (progress) progress(first + count);
  }
  filler = nullptr;
  return result;
}

std::vector<ItemScore> score_items(const std::vector<TaskItem>& items, const std::vector<ChoiceTokens>& choices,
                                   const std::vector<double>& log_likelihoods) {
  std::vector<ItemScore> scores;
  size_t next = 0;
  for (const TaskItem& item : items) {
    ItemScore& score = scores.emplace_back();
    score.gold = item.gold;
    for (size_t c = 0; c < item.choices.size(); ++c, ++next) {
      score.log_likelihoods.push_back(log_likelihoods[next]);
      score.tokens.push_back(choices[next].counted);
      score.bytes.push_back(choices[next].bytes);
    }
    score.right = best(score.log_likelihoods) == item.gold;
    score.right_by_bytes = best_by(score, score.bytes) == item.gold;
    score.right_by_tokens = best_by(score, score.tokens) == item.gold;
  }
  return scores;
}

double TaskResult::standard_error(int64_t count) const {
  if (items < 2) return 0;
  return std::sqrt(share(count) * (1 - share(count)) / static_cast<double>(items - 1));
}

std::vector<TaskResult> task_results(const std::vector<TaskItem>& items, const std::vector<ChoiceTokens>& choices,
                                     const std::vector<ItemScore>& scores, const std::string& unnamed) {
  std::vector<TaskResult> results;
  TaskResult all{.task = "all"};
  size_t next = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string& name = items[i].task.empty() ? unnamed : items[i].task;
    auto found = std::find_if(results.begin(), results.end(), [&](const TaskResult& r) { return r.task == name; });
    if (found == results.end()) found = results.insert(results.end(), TaskResult{.task = name});
    for (TaskResult* result : {&*found, &all}) {
      ++result->items;
      result->right += scores[i].right;
      result->right_by_bytes += scores[i].right_by_bytes;
      result->right_by_tokens += scores[i].right_by_tokens;
      for (size_t c = 0; c < items[i].choices.size(); ++c) {
        result->cut += choices[next + c].cut;
        result->tokens += choices[next + c].counted;
      }
    }
    next += items[i].choices.size();
  }
  if (results.size() > 1) results.push_back(all);
  return results;
}

std::string to_json(const std::vector<TaskResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TaskResult& r : results) {
    list.push_back({{"task", r.task},
                    {"items", r.items},
                    {"accuracy", r.share(r.right)},
                    {"accuracy_by_bytes", r.share(r.right_by_bytes)},
                    {"accuracy_by_tokens", r.share(r.right_by_tokens)},
                    {"standard_error", r.standard_error(r.right)},
                    {"choice_tokens", r.tokens},
                    {"cut_contexts", r.cut}});
  }
  return nlohmann::ordered_json{{"tasks", list}}.dump(1);
}

std::string to_json_line(const TaskItem& item, const ItemScore& score, const std::string& unnamed) {
  nlohmann::ordered_json line{{"task", item.task.empty() ? unnamed : item.task}};
  if (!item.id.empty()) line["id"] = item.id;
  line["gold"] = score.gold;
  line["log_likelihoods"] = score.log_likelihoods;
  line["tokens"] = score.tokens;
  line["bytes"] = score.bytes;
  return line.dump();
}

}  // namespace zrt::runtime
