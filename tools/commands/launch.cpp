#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "core/gpu.h"
#include "core/log.h"
#include "core/printable.h"
#include "runtime/config/config.h"
#include "runtime/plan/gpus.h"
#include "runtime/train/launch/hosts.h"
#include "runtime/train/launch/supervisor.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {
namespace {

// The options that `zrt train` gets as they were given here.
Args train_options(const po::variables_map& values) {
  Args args = given_run_options(values);
  if (values.count("json")) args.push_back("--json");
  return args;
}

// Says what Open MPI's mpirun wants from root before it starts anything; "" where that cannot be the cause.
std::string root_hint(const std::vector<std::string>& mpirun) {
  std::string missing;
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
    if (!std::getenv(name)) missing += fmt::format("{}{}=1", missing.empty() ? "" : " and ", name);
  }
  const bool allowed = std::find(mpirun.begin(), mpirun.end(), "--allow-run-as-root") != mpirun.end();
  if (geteuid() != 0 || missing.empty() || allowed) return "";
  return fmt::format(
      "launch: no rank began. If mpirun says that it does not run as root: set {}, or start as another user\n",
      missing);
}

// Threads of one process copy through the host where processes could not reach each other's GPUs.
bool can_be_processes(const runtime::Config& config, int ranks) {
  const auto gpus = runtime::choose_gpus(config.run.device, {ranks}, config.run.share_gpu);
  const std::string apart = core::unconnectable_gpus(gpus);
  if (apart.empty()) return true;
  std::cerr << "launch: GPUs " << apart << " cannot read each other's memory: ranks are threads of one process\n";
  return false;
}

// NCCL connects processes alone, and GPUs that cannot read each other's memory too.
bool takes_nccl(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--transport=nccl" || (words[i] == "--transport" && i + 1 < words.size() && words[i + 1] == "nccl"))
      return true;
  }
  return false;
}

}  // namespace

int launch_command(const Args& all) {
  const auto dashes = std::find(all.begin(), all.end(), "--");
  po::options_description options("options");
  options.add_options()("ranks", po::value<int>()->default_value(1), "number of ranks")(
      "processes", "a process per rank, without MPI; so it is on GPUs, elsewhere ranks are threads of one process")(
      "hosts", po::value<std::string>(), "file with a line for each host, \"worker-0 slots=8\": a process per slot")(
      "agent", po::value<std::string>()->default_value("ssh"), "what starts a command line on a host, as of zrt ranks")(
      "mpi", "a process per rank, started by mpirun")("mpirun", po::value<std::string>()->default_value("mpirun"),
                                                      "that program, with options of its own")("json", "as of train")(
      "max-restarts", po::value<int>()->default_value(3), "in a row without a newer step or checkpoint, then give up")(
      "hang-timeout", po::value<double>()->default_value(0),
      "seconds without a sign of life until the run is killed; 0: 2 run.timeout_seconds, or 5 times the longest step")(
      "start-timeout", po::value<double>()->default_value(900), "the same until the first sign of life")(
      "delay", po::value<double>()->default_value(1), "seconds before a restart; doubles up to 30");
  add_run_options(options);
  po::variables_map values;
  if (!parse({all.begin(), dashes},
             "zrt launch CONFIG [--ranks N] [--processes | --hosts FILE | --mpi] [--out DIR] [options] [-- train "
             "options…]",
             options, {"CONFIG"}, values)) {
    return 0;
  }
  std::vector<runtime::Host> hosts;
  if (values.count("hosts")) hosts = runtime::read_hosts(values["hosts"].as<std::string>());
  const int ranks = hosts.empty() ? values["ranks"].as<int>() : runtime::ranks_of(hosts);
  if (!hosts.empty() && !values["ranks"].defaulted() && values["ranks"].as<int>() != ranks) {
    throw core::UsageError(
        fmt::format("--ranks is {} but the hosts have {} slots; leave --ranks out", values["ranks"].as<int>(), ranks));
  }
  const std::string file = values["CONFIG"].as<std::string>();
  Args passed = train_options(values);
  if (dashes != all.end()) passed.insert(passed.end(), dashes + 1, all.end());

  // This says once what is wrong with the configuration.
  const runtime::Settings sets = config_settings(values, run_options());
  const runtime::Config config = runtime::load_config(file, sets, ranks);
  if (!config.run.resume.empty() && config.run.resume != "auto") {
    throw core::ConfigError(fmt::format(
        "run.resume is {}, but zrt launch goes on from the checkpoints of run.out; name that run with --out, "
        "or copy the checkpoint to checkpoints/ of a new one; `zrt checkpoint import` makes a run of a Hugging Face "
        "folder",
        config.run.resume));
  }

  if (config.run.load_module_only) {
    throw core::ConfigError(
        "run.load_module_only is true, but zrt launch goes on with the optimizer's states after a failure; start such "
        "a "
        "run with zrt train and go on with zrt launch");
  }

  runtime::LaunchOptions launch;
  launch.out = config.run.out.empty() ? default_folder(config.run.name) : config.run.out;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const bool mpi = values.count("mpi") > 0;
  if (mpi + values.count("processes") + values.count("hosts") > 1) {
    throw core::UsageError(
        "--processes, --hosts and --mpi are ways to start a process for each rank; give one of them");
  }
  const bool on_gpus = ranks > 1 && config.run.device == core::DeviceKind::cuda;
  const bool asked = values.count("processes") > 0 || takes_nccl(passed),
             processes = !mpi && hosts.empty() && (asked || (on_gpus && can_be_processes(config, ranks)));
  if (mpi) {
    launch.command = command_words(values["mpirun"].as<std::string>());
    launch.command.insert(launch.command.end(), {"-n", std::to_string(ranks), program.string()});
  } else {
    launch.command = {program.string()};
    if (processes) launch.command.insert(launch.command.end(), {"ranks", std::to_string(ranks)});
    if (!hosts.empty()) {
      launch.command.insert(launch.command.end(), {"ranks", "--hosts", values["hosts"].as<std::string>(), "--agent",
                                                   values["agent"].as<std::string>()});
    }
  }
  launch.command.insert(launch.command.end(),
                        {"train", file, "--out", launch.out.string(), "--resume", "auto", "--launched"});
  if (!mpi && !processes && hosts.empty()) launch.command.push_back(fmt::format("--ranks={}", ranks));
  launch.command.insert(launch.command.end(), passed.begin(), passed.end());
  // mpirun kills its ranks soon after SIGTERM, and cannot on SIGKILL. So ranks are asked to stop directly.
  if (mpi || processes) launch.rank_program = program;
  // SIGUSR2 it passes on to all of them, and waits.
  launch.death_signal = mpi ? SIGUSR2 : SIGTERM;
  launch.cleans_up = mpi || !hosts.empty();

  launch.max_restarts = values["max-restarts"].as<int>();
  launch.hang_timeout = runtime::Seconds(values["hang-timeout"].as<double>());
  launch.shortest_hang_timeout = runtime::Seconds(2 * static_cast<double>(config.run.timeout_seconds));
  launch.start_timeout = runtime::Seconds(values["start-timeout"].as<double>());
  launch.first_delay = runtime::Seconds(values["delay"].as<double>());
  if (launch.max_restarts < 0 || launch.hang_timeout < runtime::Seconds(0) ||
      launch.first_delay < runtime::Seconds(0)) {
    throw core::UsageError("--max-restarts, --hang-timeout and --delay must not be negative");
  }
  const runtime::LaunchResult result = runtime::supervise(launch);
  const bool could_run = result.exit_code != runtime::exit_not_runnable && result.exit_code != runtime::exit_not_found;
  if (mpi && !result.began && result.exit_code != 0 && could_run) std::cerr << root_hint(launch.command);
  std::cerr << fmt::format(
      "launch: {}; step {}, {} restart{}, {} step{} lost; goodput {:.1f} % ({:.1f} s of steps in {:.1f} s)\n",
      core::printable(result.reason), result.step, result.restarts, result.restarts == 1 ? "" : "s", result.lost_steps,
      result.lost_steps == 1 ? "" : "s", 100 * result.goodput(), result.productive_seconds, result.wall_seconds);
  return result.exit_code;
}

}  // namespace zrt::tools
