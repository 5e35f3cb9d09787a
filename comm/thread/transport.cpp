#include "comm/transport.h"

#include <fmt/format.h>

#include "comm/nccl/communicator.h"
#include "comm/thread_group.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

constexpr int most_ranks = 1024;  // threads of one process

class ThreadTransport final : public Transport {
 public:
  explicit ThreadTransport(int world) : world_(world) {}

  std::string_view name() const override { return nccl_ ? "nccl" : "thread"; }
  int world() const override { return world_; }
  int first_local() const override { return 0; }
  int local_count() const override { return world_; }
  int host_count() const override { return world_; }

  std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                         std::chrono::milliseconds timeout) override {
    auto groups = make_thread_groups(name, partition, world_, timeout);
    if (nccl_) groups.front() = add_nccl(std::move(groups.front()), {0}, timeout);
    return groups;
  }
  bool reads_gpus_of_peers() const override { return !nccl_; }
  void connect_gpus_by_nccl() override {
    if (world_ != 1) {
      throw core::ConfigError(fmt::format(
          "--transport nccl with {0} ranks in one process: NCCL connects processes with a GPU each. Start them "
          "with zrt ranks {0}, or leave --transport out, and threads read each other's GPUs",
          world_));
    }
    core::require_device(core::DeviceKind::cuda);
    require_nccl();
    nccl_ = true;
  }
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) override {
    return std::make_unique<core::Arena>(tier, bytes, device);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds) override { return {text}; }
  void fail(const std::exception&, const std::function<void()>&, int) override {}

 private:
  int world_;
  bool nccl_ = false;  // of one rank
};

}  // namespace

std::unique_ptr<Transport> make_thread_transport(int world) {
  if (world < 1 || world > most_ranks) {
    throw core::UsageError(
        fmt::format("a run cannot have {} ranks as threads of one process; legal are 1 to {}. With mpirun or srun each "
                    "process is a rank, and there may be more.",
                    world, most_ranks));
  }
  return std::make_unique<ThreadTransport>(world);
}

}  // namespace zrt::comm
