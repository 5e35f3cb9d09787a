#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "tools/commands/arguments.h"
#include "tools/commands/reporter.h"

namespace zrt::tools {
namespace {

std::atomic<bool> stop_requested{false};

void request_stop(int) {
  stop_requested = true;
}

}  // namespace

int train_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("ranks", po::value<int>()->default_value(1), "number of ranks, as threads of this process")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: override a key; may be repeated")(
      "steps", po::value<int64_t>(), "run.steps")("out", po::value<std::string>(), "run.out: folder of the run")(
      "json", "print summary.json and memory.json to stdout instead of the tables");
  po::variables_map values;
  if (!parse(args, "zrt train CONFIG [--ranks N] [--set key=value]… [--steps N] [--out DIR]", options, {"CONFIG"},
             values)) {
    return 0;
  }
  std::vector<std::string> sets;
  if (values.count("set")) sets = values["set"].as<std::vector<std::string>>();
  if (values.count("steps")) sets.push_back(fmt::format("run.steps={}", values["steps"].as<int64_t>()));
  if (values.count("out")) sets.push_back(fmt::format("run.out={}", values["out"].as<std::string>()));
  runtime::Config config = runtime::load_config(values["CONFIG"].as<std::string>(), sets, values["ranks"].as<int>());
  for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
  if (config.run.out.empty()) {
    config.run.out = default_folder(config.run.name);
    runtime::record_inferred(config, "run.out", config.run.out);
  }

  // A second signal ends the process at once.
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  Reporter reporter(config.run.steps, config.run.log_interval);
  runtime::TrainHooks hooks;
  hooks.planned = [&](const runtime::Layout& layout, const runtime::Compiled& compiled) {
    reporter.planned(layout, compiled);
  };
  hooks.step = [&](const runtime::StepMetrics& metrics) { reporter.step(metrics); };
  hooks.evaluated = [&](int64_t step, const runtime::Evaluation& e) { reporter.evaluated(step, e); };
  hooks.stop = [] { return stop_requested.load(); };
  const runtime::TrainResult result = runtime::train(config, hooks);
  reporter.end_line();
  if (values.count("json")) {
    std::cout << "{\"summary\":" << runtime::to_json(result.summary)
              << ",\"memory\":" << runtime::to_json(result.memory) << "}\n";
    return 0;
  }
  const runtime::Summary& summary = result.summary;
  std::cout << fmt::format(
      "{} after {} steps; final loss {:.4f}, median step {:.3f} s, {:.0f} tokens/s, {:.1f} model GFLOP/s\n",
      summary.exit_reason, summary.steps, summary.final_loss, summary.step_seconds, summary.tokens_per_second,
      summary.model_flops_per_second / 1e9);
  if (summary.validation) std::cout << evaluation_text(*summary.validation) << "\n";
  std::cout << memory_table(result.memory) << "state_xxh3 " << summary.state_xxh3 << "; files in " << config.run.out
            << "\n";
  return 0;
}

}  // namespace zrt::tools
