#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "tools/commands/arguments.h"
#include "tools/commands/ranks.h"
#include "tools/commands/reporter.h"

namespace zrt::tools {
namespace {

std::atomic<bool> stop_requested{false};

void request_stop(int) {
  stop_requested = true;
}

// Ends the run after the step at hand; a second signal ends the process at once. For runs of one process: others would
// not stop at the same step.
std::function<bool()> catch_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return [] { return stop_requested.load(); };
}

// What one process does of a training run.
int train_ranks(const po::variables_map& values, comm::Transport& transport) {
  std::vector<std::string> sets;
  if (values.count("set")) sets = values["set"].as<std::vector<std::string>>();
  if (values.count("steps")) sets.push_back(fmt::format("run.steps={}", values["steps"].as<int64_t>()));
  if (values.count("out")) sets.push_back(fmt::format("run.out={}", values["out"].as<std::string>()));
  runtime::Config config = runtime::load_config(values["CONFIG"].as<std::string>(), sets, transport.world());
  if (transport.leads()) {
    for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
    warn_of_binding(transport, config.run.threads_per_rank);
  }
  if (config.run.out.empty()) {
    const std::time_t now = std::time(nullptr);
    config.run.out = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", config.run.name, fmt::localtime(now));
    // The clocks of the processes differ.
    config.run.out = transport.exchange(config.run.out, std::chrono::seconds(config.run.timeout_seconds))[0];
    runtime::record_inferred(config, "run.out", config.run.out);
  }

  Reporter reporter(config.run.steps, config.run.log_interval);
  runtime::TrainHooks hooks;
  if (transport.local_count() == transport.world()) hooks.stop = catch_signals();
  if (!transport.leads()) {
    runtime::train(config, hooks, transport);
    return 0;
  }
  hooks.planned = [&](const runtime::Layout& layout, const runtime::Compiled& compiled) {
    reporter.planned(layout, compiled);
  };
  hooks.step = [&](const runtime::StepMetrics& metrics) { reporter.step(metrics); };
  hooks.evaluated = [&](int64_t step, const runtime::Evaluation& e) { reporter.evaluated(step, e); };
  const runtime::TrainResult result = runtime::train(config, hooks, transport);
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

}  // namespace

int train_command(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                        "a.b.c=value: override a key; may be repeated")("steps", po::value<int64_t>(), "run.steps")(
      "out", po::value<std::string>(), "run.out: folder of the run")(
      "json", "print summary.json and memory.json to stdout instead of the tables");
  po::variables_map values;
  if (!parse(args, "zrt train CONFIG [--ranks N] [--set key=value]… [--steps N] [--out DIR]", options, {"CONFIG"},
             values)) {
    return 0;
  }
  const auto transport = start_ranks(values);
  return run_ranks(*transport, [&] { return train_ranks(values, *transport); });
}

}  // namespace zrt::tools
