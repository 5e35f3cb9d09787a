// One rank per process.
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
#include <optional>
#include <thread>

#include "comm/nccl/communicator.h"
#include "comm/nccl/neighbours.h"
#include "comm/process/control.h"
#include "comm/process/end_watch.h"
#include "comm/process/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

constexpr auto start_timeout = std::chrono::minutes(2);  // before a configuration can say otherwise

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

class ProcessTransport final : public Transport {
 public:
  explicit ProcessTransport(std::unique_ptr<Control> control);
  ~ProcessTransport() override;

  std::string_view name() const override { return nccl_ ? "nccl" : control_->name(); }
  int world() const override { return static_cast<int>(pids_.size()); }
  int first_local() const override { return rank_; }
  int local_count() const override { return 1; }
  int host_count() const override { return static_cast<int>(here_.size()); }
  int host_place() const override { return member_; }
  int host_of(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                         std::chrono::milliseconds timeout) override;
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes, core::DeviceKind device) override;
  void require_device(core::DeviceKind device) const override;
  bool reads_gpus_of_peers() const override { return !nccl_; }
  void connect_gpus_by_nccl() override {
    require_device(core::DeviceKind::cuda);
    require_nccl();
    nccl_ = true;
  }
  bool takes_nccl(const std::vector<int>& ranks) const override {
    const auto elsewhere = [&](int rank) { return host_of(rank) != host_of(ranks.front()); };
    return ranks.size() > 1 && (nccl_ || std::any_of(ranks.begin(), ranks.end(), elsewhere));
  }
  void let_nccl_sum(bool fast) override { fast_sums_ = fast; }
  std::string gpu_ways() const override {
    if (nccl_) return "all groups of GPUs take NCCL";
    if (!several_machines_) return "";
    return "groups of GPUs inside a host read each other's memory, those that leave it take NCCL";
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return control_->exchange(text, timeout);
  }
  std::string last_calls() const override;
  void fail(const std::exception& error, const std::function<void()>& print, int code) override;

 private:
  void look_after_streams();
  std::shared_ptr<Segment> make_segment(const std::string& what, std::chrono::milliseconds timeout);
  Neighbours neighbours(const std::vector<int>& group);
  std::string queued_here() const;

  int rank_ = 0, member_ = 0;  // member: the place among the ranks of this machine
  std::vector<int> pids_;      // of all ranks
  std::vector<int> hosts_;     // of all ranks, numbered by their first ones
  std::vector<int> here_;      // ranks of this machine
  bool several_machines_ = false;
  bool nccl_ = false;       // GPUs of one host, too, are connected by NCCL
  bool fast_sums_ = false;  // NCCL sums where it connects
  std::unique_ptr<Control> control_;
  SharedArenas arenas_;
  std::shared_ptr<Segment> job_;
  std::chrono::milliseconds timeout_ = start_timeout;  // of the groups, once there are any
  mutable std::mutex mutex_;                           // guards the next two
  uint64_t queued_ = 0;                                // calls of NCCL
  std::vector<std::weak_ptr<ProcessRendezvous>> rendezvous_;
  std::optional<EndWatch> watch_;  // of ranks on GPUs
};

ProcessTransport::ProcessTransport(std::unique_ptr<Control> control)
    : rank_(control->rank()), control_(std::move(control)) {
  const std::vector<std::string> all =
      control_->exchange(fmt::format("{} {}", getpid(), machine_name()), start_timeout);
  std::map<std::string, int> machines;
  for (const std::string& one : all) {
    pids_.push_back(std::atoi(one.c_str()));
    hosts_.push_back(machines.try_emplace(one.substr(one.find(' ')), static_cast<int>(machines.size())).first->second);
  }
  several_machines_ = machines.size() > 1;
  for (size_t r = 0; r < hosts_.size(); ++r) {
    if (static_cast<int>(r) == rank_) member_ = static_cast<int>(here_.size());
    if (hosts_[r] == hosts_[static_cast<size_t>(rank_)]) here_.push_back(static_cast<int>(r));
  }
  control_->started(start_timeout);
  job_ = make_segment("start", start_timeout);
}

// Nobody may leave before all are done; a process that cannot come is not waited for in MPI_Finalize.
ProcessTransport::~ProcessTransport() {
  if (std::uncaught_exceptions() > 0) control_->abort(1);
  try {
    control_->exchange("done", timeout_);
  } catch (const std::exception& error) {
    std::cerr << "zrt: error: at the end of the run: " << error.what() << std::endl;
    control_->abort(1);
  }
  control_->finish();
}

// Collective. `what` it is for must be the same everywhere: processes that make different groups would mix their
// frames.
std::shared_ptr<Segment> ProcessTransport::make_segment(const std::string& what, std::chrono::milliseconds timeout) {
  std::shared_ptr<Segment> segment;
  if (member_ == 0) segment = std::make_shared<Segment>(host_count());
  const auto all = control_->exchange(fmt::format("{} {}", segment ? segment->file() : -1, what), timeout);
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
  control_->exchange("open", timeout);  // a maker that fails at once must not close the file before all have opened it
  return segment;
}

// The groups of a partition share one segment on each machine, and so the reason of an abort.
std::vector<std::unique_ptr<Communicator>> ProcessTransport::make_groups(const std::string& name,
                                                                         const Partition& partition,
                                                                         std::chrono::milliseconds timeout) {
  check_partition(name, partition, world());
  timeout_ = timeout;
  const Seat seat = seat_of(partition, rank_);
  const std::vector<int>& ranks = partition[seat.group];
  std::string groups;
  for (const std::vector<int>& group : partition) {
    groups += fmt::format("{}{}({})", groups.empty() ? "" : ", ", name, fmt::join(group, ","));
  }
  Membership membership{group_name(name, ranks, world()), seat.rank, timeout, {},
                        make_segment(groups, timeout),    &arenas_,  job_};
  membership.peers.resize(ranks.size());
  std::vector<int> elsewhere, hosts;
  std::vector<Peer*> remote;
  for (size_t r = 0; r < ranks.size(); ++r) {
    Peer& peer = membership.peers[r];
    const auto found = std::find(here_.begin(), here_.end(), ranks[r]);
    hosts.push_back(host_of(ranks[r]));
    if (found == here_.end()) {
      elsewhere.push_back(ranks[r]);
      remote.push_back(&peer);
      continue;
    }
    peer.member = static_cast<int>(found - here_.begin());
    peer.pid = pids_[static_cast<size_t>(ranks[r])];
    if (ranks[r] != rank_) peer.channel = membership.segment->channel(member_, peer.member);
  }
  if (several_machines_) {
    auto channels = control_->make_channels(elsewhere, timeout);
    for (size_t i = 0; i < remote.size(); ++i) remote[i]->channel = std::move(channels[i]);
  }
  std::vector<std::unique_ptr<Communicator>> local;
  const auto rendezvous = std::make_shared<ProcessRendezvous>(std::move(membership));
  {
    const std::lock_guard lock(mutex_);
    rendezvous_.push_back(rendezvous);
  }
  local.push_back(make_communicator(rendezvous, seat.rank));
  if (nccl_ || !elsewhere.empty()) {
    local.front() = add_nccl(std::move(local.front()), std::move(hosts), timeout, neighbours(ranks), fast_sums_);
  }
  return local;
}

// The segment of the run knows who waits in any group, and what ranks queued last.
Neighbours ProcessTransport::neighbours(const std::vector<int>& group) {
  const auto standing = [this, group] {
    std::string text;
    for (int member = 0; member < host_count(); ++member) {
      const int rank = here_[static_cast<size_t>(member)];
      const bool in = std::find(group.begin(), group.end(), rank) != group.end();
      if (member == member_ || !in || job_->is_waiting(member)) continue;
      text += fmt::format("{}rank {} (process {}) of the run", text.empty() ? "" : ", ", rank,
                          pids_[static_cast<size_t>(rank)]);
    }
    return text;
  };
  return {[job = job_, member = member_] { job->set_waiting(member, true); },
          [this](FlightRecord record) {
            const std::lock_guard lock(mutex_);
            record.sequence = ++queued_;
            job_->keep_record(member_, record);
          },
          [this] { return queued_here(); }, standing, !nccl_};
}

std::string ProcessTransport::queued_here() const {
  std::string text;
  for (int member = 0; member < host_count(); ++member) {
    if (member == member_) continue;
    const int rank = here_[static_cast<size_t>(member)];
    text += fmt::format("  rank {} (process {}) last queued:\n", rank, pids_[static_cast<size_t>(rank)]);
    const std::vector<FlightRecord> records = job_->records(member);
    for (const FlightRecord& record : records) {
      text += fmt::format("    #{} {} \"{}\" {} B\n", record.sequence, collective_kind_name(record.kind), record.label,
                          record.bytes);
    }
    if (records.empty()) text += "    no call yet\n";
  }
  return text;
}

// Groups of GPUs that leave a host take NCCL; frames are the host's.
void ProcessTransport::require_device(core::DeviceKind device) const {
  core::require_device(device);
  if (device == core::DeviceKind::cpu || !several_machines_) return;
  try {
    require_nccl();
  } catch (const core::ConfigError& error) {
    throw core::ConfigError(
        fmt::format("--device {} with processes on several hosts, whose GPUs NCCL alone connects: "
                    "{}. Or use the GPUs of one host, with {} ranks",
                    core::device_name(device), error.what(), host_count()));
  }
}

std::unique_ptr<core::Arena> ProcessTransport::make_arena(int, core::Tier tier, uint64_t bytes,
                                                          core::DeviceKind device) {
  if (device == core::DeviceKind::cpu) return arenas_.make(tier, bytes);
  require_device(device);
  {
    const std::lock_guard lock(mutex_);
    if (!watch_ && world() > 1 && !nccl_) watch_.emplace([this] { look_after_streams(); });
  }
  if (tier == core::Tier::device && !nccl_) return arenas_.make_on_gpu(bytes);
  return std::make_unique<core::Arena>(tier, bytes, device);
}

// A stream that waits for a process which has ended or stands still would wait for ever, and with it a host that waits
// for the stream.
void ProcessTransport::look_after_streams() {
  std::vector<std::shared_ptr<ProcessRendezvous>> groups;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : rendezvous_) {
      if (auto group = weak.lock()) groups.push_back(std::move(group));
    }
  }
  for (const auto& group : groups) group->look_after_streams();
}

std::string ProcessTransport::last_calls() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& weak : rendezvous_) {
    const auto rendezvous = weak.lock();
    if (rendezvous)
      text += fmt::format("  rank {}, group {}:\n{}", rank_, rendezvous->group(), rendezvous->own_calls());
  }
  return text;
}

void ProcessTransport::fail(const std::exception& error, const std::function<void()>& print, int code) {
  // A CommError is usually the echo of another rank's failure: let that rank speak. So shall the first machine where
  // all fail alike.
  const bool echo = dynamic_cast<const core::CommError*>(&error) != nullptr;
  const bool first_machine = here_[0] == 0;
  std::this_thread::sleep_for(std::chrono::milliseconds((echo ? 500 : 0) + (first_machine ? 0 : 300)));
  if (job_->claim()) {
    print();
    std::cout.flush();
    std::cerr.flush();
    control_->abort(code);
  }
  std::this_thread::sleep_for(std::chrono::seconds(10));  // ended meanwhile by the process that prints
  control_->abort(code);
}

}  // namespace

std::unique_ptr<Transport> make_process_transport(std::unique_ptr<Control> control) {
  return std::make_unique<ProcessTransport>(std::move(control));
}

}  // namespace zrt::comm
