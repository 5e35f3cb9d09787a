#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "tools/commands/arguments.h"
#include "tools/commands/ranks.h"
#include "tools/commands/reporter.h"
#include "tools/commands/termination.h"

namespace zrt::tools {
namespace {

constexpr int preempted = 3;  // exit code: stopped by a signal, with everything saved

std::atomic<uint32_t> requests{0};

void ask(int signal) {
  requests |= signal == SIGUSR1 ? runtime::save_requested : runtime::stop_requested;
}

// SIGUSR1: save after this step and go on. SIGTERM, SIGINT, SIGHUP: save and stop; a second one ends the process at
// once. For SIGTERM in a run of several processes see TerminationWatch.
void watch_signals() {
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is closed; under nohup it stays ignored.
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

int exit_code(const runtime::TrainResult& result) {
  return result.summary.exit_reason == "finished" ? 0 : preempted;
}

// What one process does of a training run.
int train_ranks(const po::variables_map& values, comm::Transport& transport) {
  const runtime::Settings sets =
      config_settings(values, {{"steps", "run.steps"}, {"out", "run.out"}, {"resume", "run.resume"}});
  runtime::Config config = runtime::load_config(values["CONFIG"].as<std::string>(), sets, transport.world());
  if (transport.leads()) {
    for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
    warn_of_binding(transport, config.run.threads_per_rank);
  }
  if (config.run.out.empty()) {
    // The clocks of the processes differ.
    config.run.out =
        transport.exchange(default_folder(config.run.name), std::chrono::seconds(config.run.timeout_seconds))[0];
    runtime::record_inferred(config, "run.out", config.run.out);
  }

  Reporter reporter(config.run.steps, config.run.log_interval);
  runtime::TrainHooks hooks;
  // A request to save is passed on once, one to stop stays.
  hooks.requests = [] { return requests.fetch_and(~uint32_t{runtime::save_requested}); };
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
  hooks.planned = [&](std::span<const runtime::Compiled> stages) { reporter.planned(stages); };
  hooks.step = [&](const runtime::StepMetrics& metrics) { reporter.step(metrics); };
  hooks.evaluated = [&](int64_t step, const runtime::Evaluation& e) { reporter.evaluated(step, e); };
  hooks.resumed = [&](int64_t step, const std::string& folder, uint64_t host_bytes) {
    reporter.resumed(step, folder, host_bytes);
  };
  hooks.saved = [&](const runtime::SaveOutcome& outcome) { reporter.saved(outcome); };
  hooks.warn = [&](const std::string& text) { reporter.warn(text); };
  const runtime::TrainResult result = runtime::train(config, hooks, transport);
  reporter.end_line();
  if (values.count("json")) {
    std::cout << "{\"summary\":" << runtime::to_json(result.summary)
              << ",\"memory\":" << runtime::to_json(result.memory) << "}\n";
    return exit_code(result);
  }
  const runtime::Summary& summary = result.summary;
  std::cout << fmt::format(
      "{} after {} steps; final loss {:.4f}, median step {:.3f} s, {:.0f} tokens/s, {:.1f} model GFLOP/s\n",
      summary.exit_reason, summary.steps, summary.final_loss, summary.step_seconds, summary.tokens_per_second,
      summary.model_flops_per_second / 1e9);
  if (summary.validation) std::cout << evaluation_text(*summary.validation) << "\n";
  if (!result.memory.ranks.empty()) std::cout << memory_table(result.memory);
  std::cout << "state_xxh3 " << summary.state_xxh3 << "; files in " << config.run.out << "\n";
  return exit_code(result);
}

}  // namespace

int train_command(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                        "a.b.c=value: override a key; may be repeated")("steps", po::value<int64_t>(), "run.steps")(
      "out", po::value<std::string>(), "run.out: folder of the run")(
      "resume", po::value<std::string>(),
      "run.resume: auto goes on from the newest valid checkpoint of run.out, if any; or the folder of a run, a "
      "checkpoint or a Hugging Face model")("json",
                                            "print summary.json and memory.json to stdout instead of the tables");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt train CONFIG [--ranks N] [--set key=value]… [--steps N] [--out DIR]", options, {"CONFIG"},
             values)) {
    return 0;
  }
  // Before everything that takes time: a signal whose handler is not there yet ends the process.
  watch_signals();
  std::unique_ptr<comm::Transport> transport;  // outlives the watch
  TerminationWatch termination(several_processes());
  transport = start_ranks(values);
  termination.set_transport(*transport);
  return run_ranks(*transport, [&] { return train_ranks(values, *transport); });
}

}  // namespace zrt::tools
