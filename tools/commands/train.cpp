#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "core/printable.h"
#include "tools/commands/arguments.h"
#include "tools/commands/ranks.h"
#include "tools/commands/reporter.h"
#include "tools/commands/run_signals.h"

namespace zrt::tools {
namespace {

constexpr int preempted = 3;  // exit code: stopped by a signal, with everything saved

int exit_code(const runtime::TrainResult& result) {
  return result.summary.exit_reason == "finished" ? 0 : preempted;
}

// Does the part of one process in a training run.
int train_ranks(const po::variables_map& values, comm::Transport& transport, RunSignals& signals) {
  std::vector<KeyOption> options = run_options();
  options.push_back({"resume", "run.resume"});
  const runtime::Settings sets = config_settings(values, options);
  const runtime::Config loaded = runtime::load_config(values["CONFIG"].as<std::string>(), sets, transport.world());
  const std::chrono::seconds timeout(loaded.run.timeout_seconds);
  signals.set_timeout(timeout);
  if (transport.leads()) {
    log_remarks(loaded);
    warn_of_binding(transport, loaded.run.threads_per_rank);
    if (const std::string notice = short_notice(loaded.run.checkpoint_interval); !notice.empty()) {
      spdlog::warn("{}", notice);
    }
  }
  // The clocks of the processes differ.
  const auto agreed_folder = [&] { return transport.exchange(default_folder(loaded.run.name), timeout)[0]; };
  const runtime::Config config = loaded.run.out.empty() ? runtime::into_folder(loaded, agreed_folder()) : loaded;

  Reporter reporter(config.run.steps, config.run.log_interval);
  runtime::TrainHooks hooks;
  hooks.launched = values.count("launched") > 0;
  hooks.requests = [&] { return signals.requests(); };
  hooks.stopping = [&] { return signals.stopping(); };
  hooks.stuck = [](const std::exception& error) {
    std::cout.flush();
    const int code = report_error(error);
    std::cerr << "zrt: a thread of the run is stuck and cannot be waited for: the process ends" << std::endl;
    _exit(code);
  };
  if (!transport.leads()) {
    const runtime::TrainResult result = runtime::train(config, hooks, transport);
    return exit_code(result);
  }
  hooks.gpus = [](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) std::cerr << line << '\n';
  };
  hooks.steps = [&](int64_t steps) { reporter.run_has(steps); };
  hooks.planned = [&](std::span<const runtime::Compiled> stages) { reporter.planned(stages); };
  hooks.step = [&](const runtime::StepMetrics& metrics) { reporter.step(metrics); };
  hooks.evaluated = [&](int64_t step, const runtime::Evaluation& e) { reporter.evaluated(step, e); };
  hooks.resumed = [&](int64_t step, const std::string& folder, uint64_t host_bytes) {
    reporter.resumed(step, folder, host_bytes);
  };
  hooks.delinked = [&](int64_t step, const std::vector<int64_t>& groups) { reporter.delinked(step, groups); };
  hooks.saved = [&](const runtime::SaveOutcome& outcome) { reporter.saved(outcome); };
  hooks.tell = [](const std::string& text) { std::cerr << core::printable(text) << '\n'; };
  hooks.warn = [&](const std::string& text) { reporter.warn(text); };
  const runtime::TrainResult result = runtime::train(config, hooks, transport);
  reporter.end_line();
  if (values.count("json")) {
    std::cout << "{\"summary\":" << runtime::to_json(result.summary)
              << ",\"memory\":" << runtime::to_json(result.memory) << "}\n";
    return exit_code(result);
  }
  const runtime::Summary& summary = result.summary;
  std::cout << fmt::format("{} after {} steps{}; {}median step {:.3f} s, {:.0f} tokens/s, {:.1f} model GFLOP/s\n",
                           summary.exit_reason, summary.steps,
                           summary.skipped > 0 ? fmt::format(", {} of them skipped", summary.skipped) : "",
                           std::isnan(summary.final_loss) ? "" : fmt::format("final loss {:.4f}, ", summary.final_loss),
                           summary.step_seconds, summary.tokens_per_second, summary.model_flops_per_second / 1e9);
  if (summary.delink) {
    std::cout << fmt::format("the delink took {:.3g} s, of which {:.3g} s to save and {:.3g} s to load\n",
                             summary.delink->seconds, summary.delink->save_seconds, summary.delink->load_seconds);
  }
  if (summary.validation) std::cout << evaluation_text(*summary.validation) << "\n";
  if (!result.memory.ranks.empty()) std::cout << memory_table(result.memory);
  std::cout << "state_xxh3 " << summary.state_xxh3 << "; files in "
            << core::printable(result.folder.empty() ? config.run.out : result.folder) << "\n";
  return exit_code(result);
}

}  // namespace

int train_command(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  add_run_options(options);
  options.add_options()(
      "resume", po::value<std::string>(),
      "run.resume: auto goes on from the newest valid checkpoint of run.out, if any; or the folder of a run, a "
      "checkpoint or a Hugging Face model")("json",
                                            "print summary.json and memory.json to stdout instead of the tables")(
      "launched", "as zrt launch says it, which keeps the folder for the runs that it starts");
  po::variables_map values;
  if (!parse(args, "zrt train CONFIG [--ranks N] [--set key=value]… [--steps N] [--out DIR]", options, {"CONFIG"},
             values)) {
    return 0;
  }
  // Before everything that takes time: a signal whose handler is not there yet ends the process.
  std::unique_ptr<comm::Transport> transport;  // outlives what watches it
  RunSignals signals(several_processes());
  transport = start_ranks(values);
  signals.set_transport(*transport);
  return run_ranks(*transport, [&] { return train_ranks(values, *transport, signals); });
}

}  // namespace zrt::tools
