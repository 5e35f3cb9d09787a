// One rank on one GPU, through NCCL.
#include "comm/transport.h"

#include <fmt/format.h>

#include "comm/nccl/communicator.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

class NcclTransport final : public Transport {
 public:
  std::string_view name() const override { return "nccl"; }
  int world() const override { return 1; }
  int first_local() const override { return 0; }
  int local_count() const override { return 1; }
  int host_count() const override { return 1; }

  // NCCL knows no time-out.
  std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                         std::chrono::milliseconds) override {
    check_partition(name, partition, 1);
    std::vector<std::unique_ptr<Communicator>> group;
    group.push_back(make_nccl_communicator(name, make_nccl_id(), 0, 1, nullptr, 0));
    return group;
  }
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) override {
    return std::make_unique<core::Arena>(tier, bytes, device);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds) override { return {text}; }
  void fail(const std::exception&, const std::function<void()>&, int) override {}
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(int world) {
  if (world != 1) {
    throw core::ConfigError(
        fmt::format("--transport nccl with {} ranks: several GPUs come with tensor and pipeline parallelism; use one "
                    "rank, or --transport thread, whose ranks have a GPU each",
                    world));
  }
  core::require_device(core::DeviceKind::cuda);
  return std::make_unique<NcclTransport>();
}

}  // namespace zrt::comm
