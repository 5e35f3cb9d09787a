// A rank's end of a group that NCCL connects: each rank is alone with its GPU, and calls are queued on the stream of
// the calling thread's place. Nobody compares the ranks' calls and no call waits for the others: ranks whose programs
// differ, one that is missing and a lost link show as a stream that does not come on. NCCL is asked not to block, so
// that the calling thread notices an abort; what has been queued is watched by whoever calls trouble().
//
// Sums do not use NCCL's, whose order depends on its rings: every rank is sent the contributions to its part and adds
// them in rank order, as the other transports do, which inside a host moves the same volume; between hosts of several
// ranks they go along a line of hosts (host_line.h) where that moves less. With NcclSeat::fast_sums NCCL sums, in its
// own order and in the type that is sent, and each rank's part is rounded at every rank that it passes.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/host_line.h"
#include "comm/nccl/library.h"
#include "comm/nccl/queued_calls.h"
#include "comm/nccl/seat.h"
#include "comm/portions.h"
#include "comm/rendezvous.h"

namespace zrt::comm {

class NcclRendezvous final : public Rendezvous {
 public:
  // Takes over `communicator`, which was made not to block, of as many ranks as `seat` says.
  NcclRendezvous(const NcclLibrary& library, ncclComm_t communicator, NcclSeat seat);
  ~NcclRendezvous() override;

  int size() const override { return static_cast<int>(calls_.size()); }
  const std::string& group() const override { return seat_.group; }
  void open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) override;
  bool moves_used() const override { return false; }
  void work(int rank, int phase) override;
  void close(int rank) override;
  [[noreturn]] void fail(int rank, const std::string& reason) override;
  // Later calls fail with `reason`, the first that is given; what the GPU runs is left. Returns at once.
  void refuse(const std::string& reason);
  // Also ends what this rank's GPU runs of the group; peers need aborts of their own. Waits for a call that is being
  // queued, which it ends.
  void abort(const std::string& reason) override;
  std::string reason() override;
  Counters counters(int rank) const override;
  std::vector<FlightRecord> flight_records(int rank) const override;
  // Says why the group cannot go on, which nobody else notices: NCCL met an error, or the GPU has stood in one call for
  // the time-out. Empty where nothing is wrong. Any thread; to be asked every second or so.
  std::string trouble();

 private:
  std::unique_lock<std::mutex> take_turn();
  void in_one_call(const std::function<void()>& calls);
  void settle(ncclResult_t code, const char* call);
  void queue(int phase);
  void send(const void* data, uint64_t bytes, int peer);
  void receive(void* data, uint64_t bytes, int peer);
  void copy_portions(const std::vector<std::vector<Portion>>& portions);
  void sum_portions(const std::vector<std::vector<Portion>>& portions);
  uint64_t line_part(const std::vector<std::vector<Portion>>& portions) const;
  void sum_by_nccl(const std::vector<std::vector<Portion>>& portions);
  void sum_along_line(const std::vector<std::vector<Portion>>& portions, uint64_t part);
  void gather();
  void exchange_messages();
  std::string who() const;
  std::string last_calls() const;

  const NcclLibrary& library_;
  const NcclSeat seat_;
  const int rank_;
  const uint64_t staged_bytes_;  // of each other rank
  const std::optional<HostLine> line_;
  mutable std::mutex mutex_;  // guards the next three
  bool in_call_ = false;
  std::string reason_;  // not empty once aborted
  FlightRecorder recorder_;
  std::mutex queueing_;  // guards the next
  ncclComm_t communicator_;
  cudaStream_t stream_{};  // of the open call
  QueuedCalls queued_;
  uint64_t between_hosts_ = 0;  // bytes of the open call
  CollectiveCall own_;
  std::vector<const CollectiveCall*> calls_;  // the own one for every rank: all pass equal counts
};

// Meets the other ranks, for the time-out at most, and asks `alive` meanwhile, which may throw. The rest as
// make_nccl_communicator.
std::shared_ptr<NcclRendezvous> make_nccl_rendezvous(const std::string& id, NcclSeat seat,
                                                     const std::function<void()>& alive = {});

}  // namespace zrt::comm
