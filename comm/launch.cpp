#include "comm/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "comm/nccl/communicator.h"
#include "core/error.h"
#include "core/gpu.h"

namespace zrt::comm {
namespace {

constexpr int last_port = 65535;

std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != 0 || value < 1) {
    throw core::UsageError(
        fmt::format("the launcher's variable {} is '{}'; legal are whole numbers of 1 and more", name, text));
  }
  return value;
}

// The same where others than launchers may have set it to anything.
std::optional<int> number_if_any(const Environment& environment, const char* name) {
  const char* text = environment(name);
  int value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == 0 && value >= 0 ? std::optional(value) : std::nullopt;
}

int required(const Environment& environment, const char* name, const char* launcher) {
  if (const auto value = number_if_any(environment, name)) return *value;
  throw core::UsageError(fmt::format("{} sets {} to '{}'; legal are whole numbers from 0 on", launcher, name,
                                     environment(name) ? environment(name) : ""));
}

// A place by the variables of zrt ranks.
std::optional<Launch> own_launch(const Environment& environment) {
  if (!environment(world_variable)) return std::nullopt;
  constexpr const char* launcher = "zrt ranks";
  SocketPlace place;
  place.rank = required(environment, rank_variable, launcher);
  place.world = required(environment, world_variable, launcher);
  const auto text = [&](const char* name) { return std::string(environment(name) ? environment(name) : ""); };
  place.address = text(address_variable), place.key = text(key_variable);
  place.port = required(environment, port_variable, launcher);
  place.exact_port = environment(listener_variable) != nullptr;
  if (place.rank == 0 && place.exact_port) place.listener = required(environment, listener_variable, launcher);
  return Launch{launcher, place.world, place};
}

// A place by the variables of PyTorch's launchers; none where they do not say all of it. torchrun's own agent listens
// at MASTER_PORT, so that ranks meet at one of those behind it.
std::optional<Launch> pytorch_launch(const Environment& environment) {
  const auto rank = number_if_any(environment, "RANK"), world = number_if_any(environment, "WORLD_SIZE");
  const auto port = number_if_any(environment, "MASTER_PORT");
  const char* address = environment("MASTER_ADDR");
  const auto given = [&](const char* name) { return environment(name) && *environment(name); };
  if (given("RANK") && given("WORLD_SIZE") && given("MASTER_PORT") && address && world.value_or(2) > 1) {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_PORT"}) {
      if (number_if_any(environment, name)) continue;
      throw core::UsageError(
          fmt::format("{} is '{}'; legal are whole numbers from 0 on. A launcher sets it beside "
                      "MASTER_ADDR; unset that if none started this process",
                      name, environment(name)));
    }
    if (world && rank && *rank >= *world) {
      throw core::UsageError(
          fmt::format("RANK is {} and WORLD_SIZE {}; legal ranks are 0 to {}", *rank, *world, *world - 1));
    }
  }
  if (!rank || !world || !port || !address || *world < 2 || *rank >= *world) return std::nullopt;
  if (*port < 1 || *port > last_port) {
    throw core::UsageError(fmt::format("MASTER_PORT is {}; legal are the ports 1 to {}", *port, last_port));
  }
  const auto text = [&](const char* name) { return std::string(environment(name) ? environment(name) : ""); };
  const bool agent = text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (agent && *port == last_port) {
    throw core::UsageError(
        fmt::format("MASTER_PORT is {}, the last port, where the launcher's own agent listens: ranks "
                    "meet at one behind it. Give the launcher a smaller one",
                    *port));
  }
  SocketPlace place;
  place.rank = *rank, place.world = *world, place.address = address;
  place.key = fmt::format("{}.{}", text("TORCHELASTIC_RUN_ID"), text("TORCHELASTIC_RESTART_COUNT"));
  place.port = *port + (agent ? 1 : 0);
  return Launch{environment("GROUP_RANK") ? "torchrun" : "a launcher of PyTorch's variables", *world, place};
}

// Variables by which launchers tell a process how many there are, and which it is: those of torchrun and its kin,
// horovodrun, MVAPICH, jsrun, Flux, PALS and ALPS.
constexpr const char* size_variables[] = {"WORLD_SIZE",          "LOCAL_WORLD_SIZE",   "HOROVOD_SIZE",
                                          "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE",
                                          "PALS_LOCAL_SIZE"};
constexpr const char* rank_variables[] = {"RANK",         "LOCAL_RANK",          "PMI_RANK",           "PMIX_RANK",
                                          "HOROVOD_RANK", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK",
                                          "PALS_RANKID",  "ALPS_APP_PE"};

struct Told {
  const char* name;
  int number;
};

// One that is empty counts as not set, as does -1, by which scripts for PyTorch say so. One that cannot be read may
// stand for several processes; but others than launchers may have set RANK to anything.
std::optional<Told> told(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (!text || !*text || std::strcmp(text, "-1") == 0) return std::nullopt;
  if (const auto value = number_if_any(environment, name)) return Told{name, *value};
  if (std::strcmp(name, "RANK") == 0) return std::nullopt;
  throw core::UsageError(
      fmt::format("{} is '{}'; legal are whole numbers from 0 on: by this variable launchers tell a process how many "
                  "there are, or which it is, and several that know nothing of each other would each train by itself. "
                  "Set it right, or unset {} if no launcher set it",
                  name, text, name));
}

// Processes of launchers that tell zrt no way from one to the other.
void refuse_unknown_launchers(const Environment& environment) {
  const auto refuse = [](const Told& told, int world) {
    throw core::UsageError(fmt::format(
        "{} is {}: a launcher such as torchrun, deepspeed, jsrun or flux started this process as one of {} or "
        "more, and gives zrt no way to reach the others (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT): each would "
        "train by itself. Use zrt launch --ranks {}, mpirun -n {}, srun --mpi=pmix -n {}, or zrt train --ranks {} for "
        "threads of one process; unset {} if no launcher set it",
        told.name, told.number, world, world, world, world, world, told.name));
  };
  for (const char* name : size_variables) {
    if (const auto size = told(environment, name); size && size->number > 1) refuse(*size, size->number);
  }
  for (const char* name : rank_variables) {
    if (const auto rank = told(environment, name); rank && rank->number > 0) refuse(*rank, rank->number + 1);
  }
}

}  // namespace

std::optional<Launch> detect_launch(const Environment& environment) {
  if (auto own = own_launch(environment)) return own;
  const auto open_mpi = number(environment, "OMPI_COMM_WORLD_SIZE"), pmi = number(environment, "PMI_SIZE");
  if (open_mpi && pmi && *open_mpi != *pmi) {
    throw core::UsageError(fmt::format(
        "OMPI_COMM_WORLD_SIZE is {} but PMI_SIZE is {}: two launchers disagree; start zrt with one mpirun or srun",
        *open_mpi, *pmi));
  }
  // Scripts for PyTorch set its variables for processes of mpirun and srun, too; torchrun's own ones only torchrun
  // sets.
  if (environment("GROUP_RANK") && environment("LOCAL_WORLD_SIZE")) {
    if (auto torchrun = pytorch_launch(environment)) return torchrun;
    refuse_unknown_launchers(environment);
  }
  if (open_mpi) return Launch{"Open MPI", *open_mpi};
  if (pmi) return Launch{"PMI", *pmi};
  // A batch script has these too, but no step: only srun starts processes. It may have told the job another number.
  const char* tasks = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto slurm = number(environment, tasks);
  if (slurm && environment("SLURM_STEP_ID") && environment("SLURM_PROCID")) return Launch{"Slurm", *slurm};
  if (auto pytorch = pytorch_launch(environment)) return pytorch;
  refuse_unknown_launchers(environment);
  return std::nullopt;
}

std::unique_ptr<Transport> make_transport(const std::string& kind, std::optional<int> ranks, int threads) {
  if (kind != "" && kind != "thread" && kind != "mpi" && kind != "socket" && kind != "nccl") {
    throw core::UsageError(fmt::format("--transport is '{}'; legal are thread, mpi, socket and nccl", kind));
  }
  const auto launch = detect_launch([](const char* name) -> const char* { return std::getenv(name); });
  const int processes = launch ? launch->world : 1;
  if (kind == "thread" && processes > 1) {
    throw core::UsageError(
        fmt::format("--transport thread puts all ranks into one process, but {} started {} of them; start one, or "
                    "leave --transport "
                    "out",
                    launch->launcher, processes));
  }
  // This comes before processes meet: one that fails behind that ends the others, and has no time for a message of its
  // own.
  if (kind == "nccl" && core::gpu_count() == 0) core::require_device(core::DeviceKind::cuda);
  if (kind == "nccl") {
    require_nccl();
    auto transport = make_transport(launch ? "" : "thread", ranks, threads);
    transport->connect_gpus_by_nccl();
    return transport;
  }
  if (kind == "thread" || (kind.empty() && !launch)) return make_thread_transport(ranks.value_or(threads));
  if (kind == "socket" && !(launch && launch->meeting)) {
    throw core::UsageError(
        "--transport socket is for processes of zrt ranks, zrt launch or torchrun; none started this one");
  }
  if (ranks && *ranks != processes) {
    throw core::UsageError(fmt::format(
        "--ranks is {} but {}; with a transport between processes each process is one rank: leave --ranks out or start "
        "{} processes "
        "(zrt ranks {}, mpirun -n {})",
        *ranks, launch ? fmt::format("{} started {} processes", launch->launcher, processes) : "no launcher was used",
        *ranks, *ranks, *ranks));
  }
  if (launch && launch->meeting && kind != "mpi") return make_socket_transport(*launch->meeting);
  return make_mpi_transport(launch ? launch->launcher : "no launcher", processes);
}

}  // namespace zrt::comm
