#include "tools/commands/ranks.h"

#include <fmt/format.h>
#include <sched.h>

#include <cstdlib>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "comm/launch.h"
#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"

namespace zrt::tools {

void add_rank_options(po::options_description& options) {
  options.add_options()("ranks", po::value<int>(),
                        "number of ranks, as threads of this process (under mpirun or srun each process is one)")(
      "transport", po::value<std::string>()->default_value(""),
      "thread, mpi, socket, or nccl (all groups of GPUs by NCCL); default: the way of the launcher, else thread");
}

std::unique_ptr<comm::Transport> start_ranks(const po::variables_map& values, int threads) {
  std::optional<int> ranks;
  if (values.count("ranks")) ranks = values["ranks"].as<int>();
  return comm::make_transport(values["transport"].as<std::string>(), ranks, threads);
}

int run_ranks(comm::Transport& transport, const std::function<int()>& body) {
  try {
    return body();
  } catch (const core::Error& error) {
    transport.fail(
        error, [&] { report_error(error); }, error.exit_code());
    throw;
  } catch (const std::exception& error) {
    transport.fail(
        error, [&] { report_error(error); }, 1);
    throw;
  }
}

namespace {

std::string text_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "the machine's memory is exhausted outside the arenas; use a smaller model or batch";
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return "the system starts no more threads (Resource temporarily unavailable). Every rank has some, each with "
           "address space for its stack: raise the limits (`ulimit -u`, `ulimit -v`, a container's number of "
           "processes), or use fewer ranks";
  }
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr)
    return "a JSON file that was read has a value of another type than it should; look at those that the command names";
  return core::printable_lines(error.what());
}

}  // namespace

int report_error(const std::exception& error) {
  const auto* known = dynamic_cast<const core::Error*>(&error);
  std::cerr << "zrt: error: " << text_of(error) << std::endl;
  return known ? known->exit_code() : 1;
}

bool several_processes() {
  const auto launch = comm::detect_launch([](const char* name) -> const char* { return std::getenv(name); });
  return launch && launch->world > 1;
}

void warn_of_binding(const comm::Transport& transport, int threads_per_rank) {
  cpu_set_t set;
  if (transport.local_count() == transport.world() || sched_getaffinity(0, sizeof set, &set) != 0) return;
  if (CPU_COUNT(&set) >= threads_per_rank) return;
  spdlog::warn(
      "rank {} may run on {} processor(s) but run.threads_per_rank is {}; start with mpirun --bind-to none, or "
      "--map-by slot:PE={}",
      transport.first_local(), CPU_COUNT(&set), threads_per_rank, threads_per_rank);
}

void need_single_process(const std::string& command) {
  const auto launch = comm::detect_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (!launch || launch->world == 1) return;
  throw core::UsageError(fmt::format("zrt {} runs in one process but {} started {}; start it without mpirun or srun",
                                     command, launch->launcher, launch->world));
}

}  // namespace zrt::tools
