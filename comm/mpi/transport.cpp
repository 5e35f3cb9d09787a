// One rank per process, under mpirun or srun.
#include "comm/transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "comm/mpi/library.h"
#include "comm/mpi/shared_files.h"
#include "comm/process/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

constexpr auto start_timeout = std::chrono::minutes(2);  // before a configuration can say otherwise
constexpr auto end_timeout = std::chrono::seconds(30);

// Equal for processes that see each other's memory: one running kernel, one numbering of processes. ZRT_HOST_GROUP
// separates processes that do but shall not use it.
std::string machine_name() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char processes[64] = "";
  if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) < 0) processes[0] = 0;
  const char* group = std::getenv("ZRT_HOST_GROUP");
  return fmt::format("{}/{}/{}", boot, processes, group ? group : "");
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(const std::string& launcher, int announced);
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  int world() const override { return static_cast<int>(pids_.size()); }
  int first_local() const override { return rank_; }
  int local_count() const override { return 1; }
  int host_count() const override { return static_cast<int>(here_.size()); }

  std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                         std::chrono::milliseconds timeout) override;
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) override;
  void require_device(core::DeviceKind device) const override;
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return exchange_texts(text, timeout);
  }
  std::string last_calls() const override;
  void fail(const std::exception& error, const std::function<void()>& print, int code) override;

 private:
  std::shared_ptr<Segment> make_segment(const std::string& what, std::chrono::milliseconds timeout);

  int rank_ = 0, member_ = 0;  // member: the place among the ranks of this machine
  std::vector<int> pids_;      // of all ranks
  std::vector<int> here_;      // ranks of this machine
  bool several_machines_ = false;
  SharedFiles shared_files_;
  SharedArenas arenas_;
  std::shared_ptr<Segment> job_;
  mutable std::mutex mutex_;  // guards rendezvous_
  std::vector<std::weak_ptr<ProcessRendezvous>> rendezvous_;
};

MpiTransport::MpiTransport(const std::string& launcher, int announced) {
  start_mpi();
  if (mpi_world() != announced) {
    throw core::UsageError(
        fmt::format("{} announces {} processes but MPI knows {}; use the mpirun of the MPI that zrt was built with, or "
                    "an srun that supports it (srun --mpi=pmix)",
                    launcher, announced, mpi_world()));
  }
  rank_ = mpi_rank();
  const std::vector<std::string> all = exchange_texts(fmt::format("{} {}", getpid(), machine_name()), start_timeout);
  const std::string own = all[static_cast<size_t>(rank_)].substr(all[static_cast<size_t>(rank_)].find(' '));
  const std::string first = all[0].substr(all[0].find(' '));
  for (size_t r = 0; r < all.size(); ++r) {
    pids_.push_back(std::atoi(all[r].c_str()));
    const std::string machine = all[r].substr(all[r].find(' '));
    if (static_cast<int>(r) == rank_) member_ = static_cast<int>(here_.size());
    if (machine == own) here_.push_back(static_cast<int>(r));
    several_machines_ = several_machines_ || machine != first;
  }
  shared_files_.unlink(start_timeout);
  job_ = make_segment("start", start_timeout);
}

// Nobody may leave before all are done; a process that cannot come is not waited for in MPI_Finalize.
MpiTransport::~MpiTransport() {
  if (std::uncaught_exceptions() > 0) abort_mpi(1);
  try {
    exchange_texts("done", end_timeout);
  } catch (const std::exception& error) {
    std::cerr << "zrt: error: at the end of the run: " << error.what() << std::endl;
    abort_mpi(1);
  }
  shared_files_.restore();
  finish_mpi();
}

// Collective. `what` it is for must be the same everywhere: processes that make different groups would mix their
// frames.
std::shared_ptr<Segment> MpiTransport::make_segment(const std::string& what, std::chrono::milliseconds timeout) {
  std::shared_ptr<Segment> segment;
  if (member_ == 0) segment = std::make_shared<Segment>(host_count());
  const auto all = exchange_texts(fmt::format("{} {}", segment ? segment->file() : -1, what), timeout);
  auto said = [&](size_t rank) { return all[rank].substr(all[rank].find(' ') + 1); };
  for (size_t r = 1; r < all.size(); ++r) {
    if (said(r) == said(0)) continue;
    throw core::CommError(
        fmt::format("rank 0 makes {} while rank {} makes {}; all ranks must make the same groups in "
                    "the same order",
                    said(0), r, said(r)));
  }
  const auto maker = static_cast<size_t>(here_[0]);
  if (!segment) segment = std::make_shared<Segment>(pids_[maker], std::atoi(all[maker].c_str()), host_count());
  exchange_texts("open", timeout);  // a maker that fails at once must not close the file before all have opened it
  return segment;
}

// The groups of a partition share one segment on each machine, and so the reason of an abort.
std::vector<std::unique_ptr<Communicator>> MpiTransport::make_groups(const std::string& name,
                                                                     const Partition& partition,
                                                                     std::chrono::milliseconds timeout) {
  check_partition(name, partition, world());
  const Seat seat = seat_of(partition, rank_);
  const std::vector<int>& ranks = partition[seat.group];
  std::string groups;
  for (const std::vector<int>& group : partition) {
    groups += fmt::format("{}{}({})", groups.empty() ? "" : ", ", name, fmt::join(group, ","));
  }
  Place place{group_name(name, ranks, world()), seat.rank, timeout, {}, make_segment(groups, timeout), &arenas_, job_};
  place.peers.resize(ranks.size());
  std::vector<int> elsewhere;
  std::vector<Peer*> remote;
  for (size_t r = 0; r < ranks.size(); ++r) {
    Peer& peer = place.peers[r];
    const auto found = std::find(here_.begin(), here_.end(), ranks[r]);
    if (found == here_.end()) {
      elsewhere.push_back(ranks[r]);
      remote.push_back(&peer);
      continue;
    }
    peer.member = static_cast<int>(found - here_.begin());
    peer.pid = pids_[static_cast<size_t>(ranks[r])];
    if (ranks[r] != rank_) peer.channel = place.segment->channel(member_, peer.member);
  }
  if (several_machines_) {
    auto channels = make_mpi_channels(elsewhere, timeout);
    for (size_t i = 0; i < remote.size(); ++i) remote[i]->channel = std::move(channels[i]);
  }
  std::vector<std::unique_ptr<Communicator>> local;
  const auto rendezvous = std::make_shared<ProcessRendezvous>(std::move(place));
  {
    const std::lock_guard lock(mutex_);
    rendezvous_.push_back(rendezvous);
  }
  local.push_back(make_communicator(rendezvous, seat.rank));
  return local;
}

// Frames and shared mappings are the host's, and so are sums: only a rank that has no peers can be on a GPU.
void MpiTransport::require_device(core::DeviceKind device) const {
  if (device != core::DeviceKind::cpu && world() > 1) {
    throw core::ConfigError(fmt::format(
        "--device {} with {} processes: so far ranks on GPUs are threads of one process, on one host. Start "
        "one process, without mpirun or srun, with --ranks {}",
        core::device_name(device), world(), world()));
  }
  core::require_device(device);
}

std::unique_ptr<core::Arena> MpiTransport::make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) {
  if (device == core::DeviceKind::cpu) return arenas_.make(tier, bytes);
  require_device(device);
  return std::make_unique<core::Arena>(tier, bytes, device);
}

std::string MpiTransport::last_calls() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& weak : rendezvous_) {
    const auto rendezvous = weak.lock();
    if (rendezvous)
      text += fmt::format("  rank {}, group {}:\n{}", rank_, rendezvous->group(), rendezvous->own_calls());
  }
  return text;
}

void MpiTransport::fail(const std::exception& error, const std::function<void()>& print, int code) {
  // A CommError is usually the echo of another rank's failure: let that rank speak. So shall the first machine where
  // all fail alike.
  const bool echo = dynamic_cast<const core::CommError*>(&error) != nullptr;
  const bool first_machine = here_[0] == 0;
  std::this_thread::sleep_for(std::chrono::milliseconds((echo ? 500 : 0) + (first_machine ? 0 : 300)));
  if (job_->claim()) {
    print();
    std::cout.flush();
    std::cerr.flush();
    abort_mpi(code);
  }
  std::this_thread::sleep_for(std::chrono::seconds(10));  // ended meanwhile by the process that prints
  abort_mpi(code);
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const std::string& launcher, int announced) {
  return std::make_unique<MpiTransport>(launcher, announced);
}

}  // namespace zrt::comm
