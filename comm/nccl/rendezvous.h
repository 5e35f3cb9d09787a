// A rank's end of a group that NCCL connects: each rank is alone with its GPU, and calls are queued on the stream of
// the calling thread's place. Nobody compares the ranks' calls and no call waits for the others: ranks whose programs
// differ, or one that is missing, show as a stream that does not come on, which only the executor sees.
//
// Sums do not use NCCL's, whose order depends on its rings: every rank is sent the contributions to its part and adds
// them in rank order, as the other transports do, which moves the same volume.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "comm/nccl/library.h"
#include "comm/pieces.h"
#include "comm/rendezvous.h"

namespace zrt::comm {

class NcclRendezvous final : public Rendezvous {
 public:
  // Takes over `communicator`, of `size` ranks. `staging` is memory of the GPU for contributions to sums: any size of
  // at least 16 bytes for each other rank; what does not fit is summed in rounds. It must outlive this object; one rank
  // needs none.
  NcclRendezvous(const NcclLibrary& library, ncclComm_t communicator, std::string group, int rank, int size,
                 std::byte* staging, uint64_t staging_bytes);
  ~NcclRendezvous() override;

  int size() const override { return static_cast<int>(calls_.size()); }
  const std::string& group() const override { return group_; }
  void open(int rank, const std::function<Traffic(Call&)>& fill) override;
  void work(int rank, int phase) override;
  void close(int rank) override;
  [[noreturn]] void fail(int rank, const std::string& reason) override;
  // Ends what this rank's GPU runs of the group; peers need aborts of their own. Waits for a call that is being queued.
  void abort(const std::string& reason) override;
  Counters counters(int rank) const override;
  std::vector<FlightRecord> flight_records(int rank) const override;

 private:
  void send(const void* data, uint64_t bytes, int peer);
  void receive(void* data, uint64_t bytes, int peer);
  void copy_pieces(const std::vector<std::vector<Piece>>& pieces);
  void sum_pieces(const std::vector<std::vector<Piece>>& pieces);
  void gather();
  void exchange_messages();

  const NcclLibrary& library_;
  const std::string group_;
  const int rank_;
  std::byte* const staging_;
  const uint64_t staged_bytes_;  // of each other rank
  mutable std::mutex mutex_;     // guards the next three
  bool in_call_ = false;
  std::string reason_;  // not empty once aborted
  FlightRecorder recorder_;
  std::mutex queueing_;  // guards the next
  ncclComm_t communicator_;
  Call own_;
  std::vector<const Call*> calls_;  // the own one for every rank: all pass equal counts
};

}  // namespace zrt::comm
