// The mpi transport, whose library is loaded when it is first used: programs start where there is no MPI.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "comm/process/control.h"
#include "comm/transport.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* name = "libzrt_mpi.so";

// Looks beside the program, as in a build's folder, and where the library was installed.
fs::path module_file() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& folder : {program.parent_path(), fs::path(ZRT_MPI_BUILD_FOLDER),
                                 program.parent_path().parent_path() / ZRT_MPI_INSTALL_FOLDER}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  throw core::UsageError(fmt::format(
      "{0} is missing, so zrt cannot run one rank per process of mpirun or srun: this zrt was built without MPI, or "
      "moved without {0}. Install libopenmpi-dev and openmpi-bin, configure and build anew; or start the ranks with "
      "zrt ranks N, which needs no MPI, or as threads with --ranks N",
      name));
}

using MakeControl = Control* (*)(const char* launcher, int announced);

// Never unloaded. MPI's own plug-ins look for its symbols among those of all.
MakeControl load() {
  const fs::path file = module_file();
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* found = module ? dlsym(module, "zrt_make_mpi_control") : nullptr;
  if (found) return reinterpret_cast<MakeControl>(found);
  throw core::UsageError(
      fmt::format("MPI cannot be loaded: {}. Install the MPI that zrt was built with (Debian: openmpi-bin), or start "
                  "the ranks with "
                  "zrt ranks N, which needs none",
                  dlerror()));
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const std::string& launcher, int announced) {
  static const MakeControl make = load();
  return make_process_transport(std::unique_ptr<Control>(make(launcher.c_str(), announced)));
}

}  // namespace zrt::comm
