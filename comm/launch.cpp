#include "comm/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace zrt::comm {
namespace {

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

// Processes of launchers that tell zrt no way from one to the other.
void refuse_unknown_launchers(const Environment& environment) {
  const auto refuse = [](const char* name, int value, int world) {
    throw core::UsageError(fmt::format(
        "{} is {}: a launcher such as torchrun, deepspeed or accelerate started this process as one of {} or "
        "more, and gives zrt no way to reach the others: each would train by itself. Use mpirun -n {}, srun "
        "--mpi=pmix -n {}, or --ranks {} for threads of one process; unset {} if no launcher set it",
        name, value, world, world, world, world, name));
  };
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "HOROVOD_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const auto size = number_if_any(environment, name);
    if (size && *size > 1) refuse(name, *size, *size);
  }
  for (const char* name : {"RANK", "LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "HOROVOD_RANK"}) {
    const auto rank = number_if_any(environment, name);
    if (rank && *rank > 0) refuse(name, *rank, *rank + 1);
  }
}

}  // namespace

std::optional<Launch> detect_launch(const Environment& environment) {
  const auto open_mpi = number(environment, "OMPI_COMM_WORLD_SIZE"), pmi = number(environment, "PMI_SIZE");
  if (open_mpi && pmi && *open_mpi != *pmi) {
    throw core::UsageError(fmt::format(
        "OMPI_COMM_WORLD_SIZE is {} but PMI_SIZE is {}: two launchers disagree; start zrt with one mpirun or srun",
        *open_mpi, *pmi));
  }
  // Scripts for PyTorch set its variables for processes of mpirun and srun, too; torchrun's own ones only torchrun
  // sets.
  if (environment("GROUP_RANK") && environment("LOCAL_WORLD_SIZE")) refuse_unknown_launchers(environment);
  if (open_mpi) return Launch{"Open MPI", *open_mpi};
  if (pmi) return Launch{"PMI", *pmi};
  // A batch script has these too, but no step: only srun starts processes. It may have told the job another number.
  const char* tasks = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto slurm = number(environment, tasks);
  if (slurm && environment("SLURM_STEP_ID") && environment("SLURM_PROCID")) return Launch{"Slurm", *slurm};
  refuse_unknown_launchers(environment);
  return std::nullopt;
}

std::unique_ptr<Transport> make_transport(const std::string& kind, std::optional<int> ranks, int threads) {
  if (kind != "" && kind != "thread" && kind != "mpi" && kind != "nccl") {
    throw core::UsageError(fmt::format("--transport is '{}'; legal are thread, mpi and nccl", kind));
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
  if (kind == "nccl") return make_nccl_transport(launch ? processes : ranks.value_or(threads));
  if (kind == "thread" || (kind.empty() && !launch)) return make_thread_transport(ranks.value_or(threads));
  if (ranks && *ranks != processes) {
    throw core::UsageError(fmt::format(
        "--ranks is {} but {}; with transport mpi each process is one rank: leave --ranks out or start {} processes "
        "(mpirun -n {})",
        *ranks, launch ? fmt::format("{} started {} processes", launch->launcher, processes) : "no launcher was used",
        *ranks, *ranks));
  }
  return make_mpi_transport(launch ? launch->launcher : "no launcher", processes);
}

}  // namespace zrt::comm
