// The local ranks of a run, ready to run programs: arenas, communicators and executors, one rank per thread. Ranks of
// other processes have sessions of their own; all processes call the same methods in the same order.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport.h"
#include "core/arena.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/rank_threads.h"
#include "runtime/ops/aliases.h"
#include "runtime/passes/compile.h"

namespace zrt::runtime {

// Batches and weights come from outside. All are called from lane threads of several ranks at once; `rank` is the
// rank's number in the run. Stages of a pipeline read the same batches, each what it needs of them: the first and the
// last, or all where samples hold several documents. Ranks that are equal modulo the ranks of a stage do.
struct SessionHooks {
  std::function<void(int rank, uint32_t microbatch, const data::SampleRows& to)> batch;
  decltype(Rank::load) load;
  bool loads_states = false;
  Origin origin = nullptr;    // of what `load` gives; null: every tensor has values of its own
  StuckHook stuck = nullptr;  // a rank's thread does not come back although the group has ended
  decltype(Rank::begins_anew) begins_anew = nullptr;
};

struct SessionOptions {
  optimizer::LossScaleParams loss_scale;
  double clip = 0;
  uint64_t seed = 0;
  std::chrono::milliseconds timeout{120000};
  ExecutorOptions executor;
  std::string nvme_path;             // a folder for the files of the NVMe tier
  bool fast_sums = false;            // NCCL orders the sums of the groups that it connects
  bool share_gpu = false;            // ranks of this process take turns on GPUs where these are fewer
  double nvme_bytes_per_second = 0;  // slows each of them down to this, for tests; 0: as fast as it is
  std::function<void(const std::string&)>
      warn;  // why something is slower than it could be; one at a time, from any thread
};

class Session {
 public:
  // Stages in order. The transport must outlive the session.
  Session(std::vector<Compiled> stages, SessionOptions options, SessionHooks hooks, comm::Transport& transport);
  Session(Compiled only, SessionOptions options, SessionHooks hooks, comm::Transport& transport);  // one stage
  // The same with all ranks as threads of this process.
  Session(std::vector<Compiled> stages, SessionOptions options, SessionHooks hooks);
  Session(Compiled only, SessionOptions options, SessionHooks hooks);
  ~Session();

  // Runs a phase on all local ranks at once and waits. Throws the root cause of the first local rank that has one, else
  // the CommError that holds another process's. A phase after a step finds whole weights up to date. The inputs are a
  // copy: every rank writes its control block, where a caller may have them from.
  void run(std::string_view phase, StepInputs inputs);
  // Makes the updates that a step has left to the next one (Layout::late_updates()), for somebody who is to read the
  // states that lie in the arenas and the file. run() does it by itself.
  void finish_updates();

  // Runs "export" and calls `take` with each parameter, its logical fp32 weights, in the process where the first rank
  // of its stage lives. In canonical order, of a pipeline stage by stage; what stages share comes from the first of
  // them.
  void export_weights(const std::function<void(const models::Param& param, const float* weights)>& take);
  std::string state_xxh3();  // hash of these weights, of all stages in canonical order

  // Local ranks are numbered from 0; the number of local rank i in the run is first_local() + i.
  int local_count() const { return static_cast<int>(ranks_.size()); }
  int first_local() const { return transport_.first_local(); }
  bool fast_sums() const {
    return fast_sums_;
  }  // NCCL orders sums, as SessionOptions says and where it connects groups
  Executor& executor(int local) { return *ranks_[static_cast<size_t>(local)].executor; }
  comm::Communicator& communicator(int local) const { return *ranks_[static_cast<size_t>(local)].groups[0]; }
  // Null for a tier that the programs do not use.
  core::Arena* arena(int local, core::Tier tier) {
    return ranks_[static_cast<size_t>(local)].arenas[static_cast<size_t>(tier)].get();
  }
  // The NVMe tier of a rank; null where the programs do not use it.
  offload::BlockFile* file(int local) const { return ranks_[static_cast<size_t>(local)].file.get(); }
  core::Arena& arena(int local) { return *arena(local, core::Tier::device); }
  comm::Transport& transport() const { return transport_; }
  // Calls `body` with every local rank's index, each on its own thread, and waits; throws like run().
  void on_all_ranks(const std::function<void(size_t local)>& body);
  std::chrono::milliseconds timeout() const { return timeout_; }
  // The other local ranks have this long to notice that one has failed.
  std::chrono::milliseconds grace() const {
    return std::min<std::chrono::milliseconds>(timeout_, std::chrono::seconds(5));
  }
  const StuckHook& stuck() const { return hooks_.stuck; }
  const std::vector<Compiled>& stages() const { return stages_; }
  // Returns the stage of a local rank.
  const Compiled& stage(int local) const {
    return stages_[static_cast<size_t>(stages_.front().layout.mesh.stage(first_local() + local))];
  }

 private:
  struct Member {
    std::array<std::unique_ptr<core::Arena>, core::tier_count> arenas;  // null where the programs use none
    std::vector<std::unique_ptr<comm::Communicator>> groups;            // by GroupId; some have memory of the arenas
    std::unique_ptr<offload::BlockFile> file;                           // in place of an arena of the NVMe tier
    offload::PacedLink up, down;
    std::unique_ptr<Executor> executor;
  };
  void make_ranks(const SessionOptions& options);
  bool refreshes() const;
  void export_params(const std::function<void(const optimizer::UnitParam& param, const float* weights)>& take);
  void run_on_ranks(std::string_view phase, const StepInputs& inputs, std::optional<size_t> only = {});

  std::vector<Compiled> stages_;
  std::unique_ptr<comm::Transport> own_transport_;
  comm::Transport& transport_;
  const std::chrono::milliseconds timeout_;
  SessionHooks hooks_;
  std::function<void(const optimizer::UnitParam&, const float*)> export_param_;
  bool fast_sums_ = false;
  std::vector<int> gpus_;  // by local rank; empty on the CPU
  std::vector<Member> ranks_;
  bool stale_ = false;         // a step has left whole weights to be brought up to date
  bool updates_wait_ = false;  // a step has left its updates to the next one
};

}  // namespace zrt::runtime
