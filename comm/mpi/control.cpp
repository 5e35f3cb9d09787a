// Processes under mpirun or srun, with MPI between them. A library of its own, which comm/mpi_transport.cpp loads when
// it is first needed.
#include "comm/process/control.h"

#include <fmt/format.h>

#include "comm/mpi/library.h"
#include "comm/mpi/shared_files.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

class MpiControl final : public Control {
 public:
  MpiControl(const std::string& launcher, int announced) {
    start_mpi();
    if (mpi_world() == announced) return;
    throw core::UsageError(
        fmt::format("{} announces {} processes but MPI knows {}; use the mpirun of the MPI that zrt was built with, or "
                    "an srun that supports it (srun --mpi=pmix)",
                    launcher, announced, mpi_world()));
  }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return mpi_rank(); }
  int world() const override { return mpi_world(); }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return exchange_texts(text, timeout);
  }
  std::vector<std::unique_ptr<Channel>> make_channels(const std::vector<int>& peers,
                                                      std::chrono::milliseconds timeout) override {
    return make_mpi_channels(peers, timeout);
  }
  void started(std::chrono::milliseconds timeout) override { shared_files_.unlink(timeout); }
  void finish() override {
    shared_files_.restore();
    finish_mpi();
  }
  [[noreturn]] void abort(int code) override { abort_mpi(code); }

 private:
  SharedFiles shared_files_;
};

}  // namespace

}  // namespace zrt::comm

extern "C" zrt::comm::Control* zrt_make_mpi_control(const char* launcher, int announced) {
  return new zrt::comm::MpiControl(launcher, announced);
}
