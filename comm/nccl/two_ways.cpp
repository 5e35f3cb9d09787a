#include <mutex>
#include <optional>
#include <utility>

#include "comm/nccl/communicator.h"
#include "comm/nccl/rendezvous.h"
#include "comm/nccl/staging.h"
#include "comm/process/end_watch.h"
#include "core/arena.h"
#include "core/device.h"
#include "core/gpu.h"

namespace zrt::comm {
namespace {

constexpr size_t id_bytes = 2 * sizeof(ncclUniqueId);  // as text

// NCCL's group is made at the first call on a GPU, when the caller's GPU is the rank's: runs on the host need no NCCL.
class TwoWays final : public Communicator {
 public:
  TwoWays(std::unique_ptr<Communicator> host, std::vector<int> hosts, std::chrono::milliseconds timeout,
          Neighbours neighbours, bool fast_sums)
      : host_(std::move(host)),
        hosts_(std::move(hosts)),
        timeout_(timeout),
        neighbours_(std::move(neighbours)),
        fast_sums_(fast_sums) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const std::string& group() const override { return host_->group(); }

  void all_reduce(void* data, int64_t count, DType type, std::string_view label) override {
    way().all_reduce(data, count, type, label);
  }
  void reduce_scatter(std::span<const ReduceRange> ranges, DType from, DType to, std::string_view label) override {
    way().reduce_scatter(ranges, from, to, label);
  }
  void all_gather(std::span<const GatherRange> ranges, DType type, std::string_view label) override {
    way().all_gather(ranges, type, label);
  }
  void all_to_all(const void* source, void* target, int64_t count, DType type, std::string_view label,
                  std::span<const int64_t> used) override {
    way().all_to_all(source, target, count, type, label, used);
  }
  void broadcast(void* data, int64_t count, DType type, int root, std::string_view label) override {
    way().broadcast(data, count, type, root, label);
  }
  void send_recv(std::span<const Message> sends, std::span<const Message> receives, std::string_view label) override {
    way().send_recv(sends, receives, label);
  }
  void barrier(std::string_view label) override { way().barrier(label); }
  void lend(std::byte* staging) override { lent_ = staging; }

  // The watch's thread ends what the GPU runs of the group: an abort of NCCL may wait for calls of another group, which
  // its own thread ends meanwhile.
  void abort(const std::string& reason) override {
    host_->abort(reason);
    const std::lock_guard lock(mutex_);
    if (calls_) calls_->refuse(reason);
    if (watch_) watch_->wake();
  }
  void require_alive() const override {
    host_->require_alive();
    if (const Communicator* gpu = made()) gpu->require_alive();
  }
  Counters counters() const override {
    Counters sum = host_->counters();
    const std::lock_guard lock(mutex_);
    sum -= meeting_;
    if (gpu_) sum += gpu_->counters();
    return sum;
  }
  std::vector<FlightRecord> flight_records() const override {
    std::vector<FlightRecord> all = host_->flight_records();
    if (const Communicator* gpu = made()) {
      for (FlightRecord& record : gpu->flight_records()) all.push_back(std::move(record));
    }
    return all;
  }

 private:
  Communicator* made() const {
    const std::lock_guard lock(mutex_);
    return gpu_.get();
  }
  Communicator& way() {
    if (core::place().device == core::DeviceKind::cpu) return *host_;
    if (Communicator* gpu = made()) return *gpu;
    const std::string id = meet();
    const uint64_t bytes = nccl_staging_bytes(size());
    if (bytes > 0 && !lent_) {
      own_ = std::make_unique<core::Arena>(core::Tier::device, bytes, core::DeviceKind::cuda);
    }
    auto calls = make_nccl_rendezvous(
        id,
        {group(), rank(), hosts_, own_ ? own_->data() : lent_, bytes, timeout_, std::nullopt, fast_sums_, neighbours_},
        [this] { host_->require_alive(); });
    const std::lock_guard lock(mutex_);
    calls_ = calls;
    gpu_ = make_communicator(calls, rank());
    const int number = core::current_gpu();
    if (size() > 1) watch_.emplace([this, calls, number] { look(*calls, number); });
    return *gpu_;
  }
  // The host is told why the GPUs cannot go on, and so all ranks; each lets its own GPU go on.
  void look(NcclRendezvous& calls, int number) {
    const core::OnGpu gpu(number);
    try {
      host_->require_alive();
      const std::string trouble = calls.trouble();
      if (trouble.empty()) return;
      host_->abort(trouble);
      calls.abort(trouble);
    } catch (const std::exception& error) {
      calls.abort(error.what());
    }
  }
  // Rank 0 tells the others the id of NCCL's group, over the host and uncounted.
  std::string meet() {
    const core::OnPlace host({});
    const Counters before = host_->counters();
    std::string id = rank() == 0 ? make_nccl_id() : std::string(id_bytes, '0');
    host_->broadcast(id.data(), static_cast<int64_t>(id.size()), DType::u8, 0, "the id of NCCL's group");
    Counters more = host_->counters();
    more -= before;
    const std::lock_guard lock(mutex_);
    meeting_ += more;
    return id;
  }

  const std::unique_ptr<Communicator> host_;
  const std::vector<int> hosts_;  // by rank
  const std::chrono::milliseconds timeout_;
  const Neighbours neighbours_;
  const bool fast_sums_;
  std::byte* lent_ = nullptr;
  std::unique_ptr<core::Arena> own_;  // where nobody has lent any
  mutable std::mutex mutex_;          // guards what follows
  std::shared_ptr<NcclRendezvous> calls_;
  std::unique_ptr<Communicator> gpu_;
  Counters meeting_;
  std::optional<EndWatch> watch_;  // of several ranks; ends first
};

}  // namespace

void require_nccl() {
  nccl_library();
}

std::unique_ptr<Communicator> add_nccl(std::unique_ptr<Communicator> host, std::vector<int> hosts,
                                       std::chrono::milliseconds timeout, Neighbours neighbours, bool fast_sums) {
  return std::make_unique<TwoWays>(std::move(host), std::move(hosts), timeout, std::move(neighbours), fast_sums);
}

}  // namespace zrt::comm
