// One rank per process, under mpirun or srun.
#include "comm/transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "comm/mpi/library.h"
#include "comm/process/meeting.h"
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

  std::vector<std::unique_ptr<Communicator>> make_group(const std::string& name,
                                                        std::chrono::milliseconds timeout) override;
  std::unique_ptr<core::Arena> make_arena(int, core::Tier tier, uint64_t bytes) override {
    return arenas_.make(tier, bytes);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return exchange_texts(text, timeout);
  }
  std::string last_calls() const override;
  void fail(const std::exception& error, const std::function<void()>& print, int code) override;

 private:
  std::shared_ptr<Segment> make_segment(std::chrono::milliseconds timeout);

  int rank_ = 0, member_ = 0;  // member: the place among the ranks of this machine
  std::vector<int> pids_;      // of all ranks
  std::vector<int> here_;      // ranks of this machine
  std::vector<int> elsewhere_;
  bool several_machines_ = false;
  SharedArenas arenas_;
  std::shared_ptr<Segment> job_;
  mutable std::mutex mutex_;  // guards meetings_
  std::vector<std::weak_ptr<ProcessMeeting>> meetings_;
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
    (machine == own ? here_ : elsewhere_).push_back(static_cast<int>(r));
    several_machines_ = several_machines_ || machine != first;
  }
  job_ = make_segment(start_timeout);
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
  finish_mpi();
}

std::shared_ptr<Segment> MpiTransport::make_segment(std::chrono::milliseconds timeout) {
  std::shared_ptr<Segment> segment;
  if (member_ == 0) segment = std::make_shared<Segment>(host_count());
  const auto files = exchange_texts(std::to_string(segment ? segment->file() : -1), timeout);
  const auto maker = static_cast<size_t>(here_[0]);
  if (!segment) segment = std::make_shared<Segment>(pids_[maker], std::atoi(files[maker].c_str()), host_count());
  return segment;
}

std::vector<std::unique_ptr<Communicator>> MpiTransport::make_group(const std::string& name,
                                                                    std::chrono::milliseconds timeout) {
  Place place{name, rank_, timeout, {}, make_segment(timeout), &arenas_};
  place.peers.resize(pids_.size());
  for (int member = 0; member < host_count(); ++member) {
    const int rank = here_[static_cast<size_t>(member)];
    Peer& peer = place.peers[static_cast<size_t>(rank)];
    peer.member = member;
    peer.pid = pids_[static_cast<size_t>(rank)];
    if (rank != rank_) peer.channel = place.segment->channel(member_, member);
  }
  if (several_machines_) {
    auto channels = make_mpi_channels(elsewhere_, timeout);
    for (size_t i = 0; i < elsewhere_.size(); ++i) {
      place.peers[static_cast<size_t>(elsewhere_[i])].channel = std::move(channels[i]);
    }
  }
  std::vector<std::unique_ptr<Communicator>> local;
  const auto meeting = std::make_shared<ProcessMeeting>(std::move(place));
  {
    const std::lock_guard lock(mutex_);
    meetings_.push_back(meeting);
  }
  local.push_back(make_communicator(meeting, rank_));
  return local;
}

std::string MpiTransport::last_calls() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& weak : meetings_) {
    const auto meeting = weak.lock();
    if (meeting) text += fmt::format("  rank {}, group {}:\n{}", rank_, meeting->group(), meeting->own_calls());
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
