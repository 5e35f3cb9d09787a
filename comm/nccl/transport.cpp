// A process for each GPU, with NCCL between the GPUs. What lies on the host, and all agreements, go another way.
#include "comm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/nccl/communicator.h"
#include "core/arena.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(std::unique_ptr<Transport> host) : host_(std::move(host)) {}

  std::string_view name() const override { return "nccl"; }
  int world() const override { return host_->world(); }
  int first_local() const override { return host_->first_local(); }
  int local_count() const override { return 1; }
  int host_count() const override { return host_->host_count(); }
  int host_place() const override { return host_->host_place(); }
  int host_of(int rank) const override { return host_->host_of(rank); }
  bool reads_gpus_of_peers() const override { return false; }
  std::string gpu_ways() const override { return "all groups of GPUs take NCCL"; }

  std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                         std::chrono::milliseconds timeout) override {
    std::vector<std::unique_ptr<Communicator>> group = host_->make_groups(name, partition, timeout);
    std::vector<int> hosts;
    for (const int rank : partition[seat_of(partition, first_local()).group]) hosts.push_back(host_->host_of(rank));
    // A group that leaves the host has it already.
    const bool leaves = std::any_of(hosts.begin(), hosts.end(), [&](int host) { return host != hosts.front(); });
    if (!leaves) group.front() = add_nccl(std::move(group.front()), std::move(hosts), timeout);
    return group;
  }
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) override {
    return std::make_unique<core::Arena>(tier, bytes, device);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return host_->exchange(text, timeout);
  }
  std::string last_calls() const override { return host_->last_calls(); }
  void fail(const std::exception& error, const std::function<void()>& print, int code) override {
    host_->fail(error, print, code);
  }

 private:
  std::unique_ptr<Transport> host_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(std::unique_ptr<Transport> host) {
  if (host->local_count() != 1) {
    throw core::ConfigError(fmt::format(
        "--transport nccl with {0} ranks in one process: NCCL connects processes with a GPU each. Start them "
        "with zrt ranks {0}, or leave --transport out, and threads read each other's GPUs",
        host->local_count()));
  }
  core::require_device(core::DeviceKind::cuda);
  return std::make_unique<NcclTransport>(std::move(host));
}

}  // namespace zrt::comm
