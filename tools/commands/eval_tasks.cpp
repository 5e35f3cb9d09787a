#include "tools/commands/eval_tasks.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/printable.h"
#include "runtime/engine/session_options.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/tasks/few_shot.h"
#include "runtime/train/tasks/score.h"
#include "runtime/train/telemetry/metrics.h"
#include "tools/commands/eval_session.h"
#include "tools/commands/run_tokenizer.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {
namespace {

constexpr const char* options_of_tasks[] = {"shots",     "number", "shot-seed", "shot-separator", "scores",
                                            "tokenizer", "eod",    "template",  "no-template"};

runtime::FewShot few_shot(const po::variables_map& values) {
  runtime::FewShot options;
  if (values.count("shots") != values.count("number")) {
    throw core::UsageError("--shots FILE and --number K go together: so many lines of the file stand before each item");
  }
  if (values.count("number")) options.number = values["number"].as<int64_t>();
  if (options.number < 0) throw core::UsageError(fmt::format("--number is {}; legal are 0 and more", options.number));
  if (values.count("shot-seed")) {
    const auto seed = values["shot-seed"].as<int64_t>();
    if (seed < 0) throw core::UsageError(fmt::format("--shot-seed is {}; legal are 0 to 2^63 - 1", seed));
    options.seed = static_cast<uint64_t>(seed);
  }
  if (values.count("shot-separator")) options.separator = values["shot-separator"].as<std::string>();
  return options;
}

std::vector<runtime::TaskItem> read_items(const po::variables_map& values, std::string& unnamed) {
  const std::filesystem::path file = values["tasks"].as<std::string>();
  unnamed = file.stem().string();
  std::vector<runtime::TaskItem> items = runtime::read_tasks(file);
  const runtime::FewShot options = few_shot(values);
  if (options.number == 0) return items;
  return runtime::with_shots(std::move(items), runtime::read_tasks(values["shots"].as<std::string>()), options);
}

// Ranks on machines with other files would score other texts.
void require_same_tasks(comm::Transport& transport, const std::vector<runtime::ChoiceTokens>& choices,
                        std::chrono::milliseconds timeout) {
  core::Hash hash;
  for (const runtime::ChoiceTokens& choice : choices) {
    hash.update(choice.ids.data(), choice.ids.size() * sizeof(int32_t));
    hash.update(&choice.counted, sizeof choice.counted);
  }
  runtime::require_same_data(transport, {{"tasks", hash.hex()}}, timeout);
}

// A line on stderr every ten seconds.
std::function<void(size_t)> progress(size_t choices, bool leads) {
  if (!leads) return nullptr;
  const auto began = std::chrono::steady_clock::now();
  return [choices, began, last = began](size_t done) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::seconds(10)) return;
    last = now;
    const double rate = static_cast<double>(done) / std::chrono::duration<double>(now - began).count();
    std::cerr << fmt::format("{} of {} choices scored, {:.1f} a second\n", done, choices, rate);
  };
}

std::string results_text(const std::vector<runtime::TaskResult>& results) {
  size_t width = 4;
  for (const runtime::TaskResult& r : results) width = std::max(width, core::printable(r.task).size());
  std::string text = fmt::format("{:<{}}  {:>7}  {:>8}  {:>7}  {:>8}  {:>9}", "task", width, "items", "accuracy", "±",
                                 "by bytes", "by tokens");
  for (const runtime::TaskResult& r : results) {
    text +=
        fmt::format("\n{:<{}}  {:>7}  {:>8.4f}  {:>7.4f}  {:>8.4f}  {:>9.4f}", core::printable(r.task), width, r.items,
                    r.share(r.right), r.standard_error(r.right), r.share(r.right_by_bytes), r.share(r.right_by_tokens));
  }
  return text;
}

void require_finite(const std::vector<double>& scores, const runtime::RunPaths& run) {
  for (const double score : scores) {
    if (std::isfinite(score)) continue;
    throw core::DataError(fmt::format(
        "{}: a choice's log-likelihood is {}: the weights are finite, but the model overflows on this text. The run "
        "has diverged; train again with a lower optimizer.params.lr or with gradient_clipping.",
        run.checkpoint.string(), score));
  }
}

}  // namespace

void add_task_options(po::options_description& options) {
  options.add_options()("tasks", po::value<std::string>(),
                        "FILE.jsonl of {context, choices, gold}: accuracies in place of a loss")(
      "shots", po::value<std::string>(), "FILE.jsonl of solved items to put before each")(
      "number", po::value<int64_t>(), "so many shots before each item")(
      "shot-seed", po::value<int64_t>(), "draw each item's shots; without it they are the file's first")(
      "shot-separator", po::value<std::string>(), "what stands behind a shot; default: an empty line")(
      "scores", po::value<std::string>(), "FILE.jsonl for the log-likelihoods of each item");
  add_tokenizer_options(options, "of --tasks: ");
  add_force_option(options);
}

void check_task_options(const po::variables_map& values) {
  if (!values.count("tasks")) {
    for (const char* option : options_of_tasks) {
      if (values.count(option)) throw core::UsageError(fmt::format("--{} goes with --tasks FILE.jsonl alone", option));
    }
    return;
  }
  if (values.count("data")) throw core::UsageError("--tasks and --data are two evaluations: give one of them");
  few_shot(values);
  tokenizer_wish(values);
  if (!values.count("scores")) return;
  require_replaceable(
      {values["scores"].as<std::string>(), "--scores", "\"log_likelihoods\"", values["tasks"].as<std::string>()},
      values);
}

int eval_tasks(const po::variables_map& values, comm::Transport& transport, const runtime::RunPaths& run,
               const runtime::Config& config_of_run) {
  const runtime::Config config = runtime::one_text_per_rank(config_of_run);
  const models::Model model = config.model.make();
  if (model.masking) {
    throw core::ConfigError(
        fmt::format("model.type is \"{}\": a model that names hidden tokens from both sides gives a text no "
                    "likelihood token by token. --tasks is for models that predict the next token",
                    model.type));
  }
  std::string unnamed;
  const std::vector<runtime::TaskItem> items = read_items(values, unnamed);
  const runtime::checkpoint::Reader weights(run.checkpoint, false);
  const RunTokenizer chosen = choose_tokenizer(config, run, weights.manifest().made_by, tokenizer_wish(values));
  if (transport.leads() && !chosen.rule.empty()) spdlog::info("{}", chosen.rule);
  const std::vector<runtime::ChoiceTokens> choices = runtime::task_tokens(chosen.coder, items, config.model.sequence);
  require_same_tasks(transport, choices, runtime::session_options(config).timeout);

  runtime::BatchFiller filler;
  const auto session = open_eval_session(run, config, model, weights, filler, transport);
  const std::vector<double> found =
      runtime::log_likelihoods(*session, filler, choices, progress(choices.size(), transport.leads()));
  if (!transport.leads()) return 0;
  require_finite(found, run);
  const std::vector<runtime::ItemScore> scores = runtime::score_items(items, choices, found);
  const std::vector<runtime::TaskResult> results = runtime::task_results(items, choices, scores, unnamed);
  if (values.count("scores")) {
    std::string lines;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) lines += '\n';
      lines += runtime::to_json_line(items[i], scores[i], unnamed);
    }
    runtime::write_file(values["scores"].as<std::string>(), lines);
  }
  if (results.back().cut > 0) {
    spdlog::warn("{} contexts were longer than the model's {} tokens and have lost their beginning", results.back().cut,
                 config.model.sequence);
  }
  std::cout << (values.count("json") ? runtime::to_json(results) : results_text(results)) << "\n";
  return 0;
}

}  // namespace zrt::tools
