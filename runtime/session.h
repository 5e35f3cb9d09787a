// The ranks of one process, ready to run programs: arenas, communicators and executors for thread ranks.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/arena.h"
#include "runtime/compile.h"
#include "runtime/executor.h"

namespace zrt::runtime {

// Batches and weights come from outside. All are called from lane threads of several ranks at once.
struct SessionHooks {
  std::function<void(int rank, uint32_t microbatch, int32_t* tokens, int32_t* targets)> batch;
  std::function<void(const models::Param& param, int64_t begin, std::span<float> out)> load;
};

struct SessionOptions {
  optimizer::LossScaleParams loss_scale;
  double clip = 0;
  uint64_t seed = 0;
  std::chrono::milliseconds timeout{120000};
  ExecutorOptions executor;
};

class Session {
 public:
  // The layout must outlive the session; `compiled` must be of that layout.
  Session(const Layout& layout, Compiled compiled, SessionOptions options, SessionHooks hooks);
  ~Session();

  // Runs a phase on all ranks at once and waits. Throws the first rank's root cause. The inputs are a copy: every rank
  // writes its control block, where a caller may have them from.
  void run(std::string_view phase, StepInputs inputs);

  // Runs "save" and calls `take` on rank 0 with each parameter in canonical order: its logical fp32 weights.
  void save(const std::function<void(const models::Param& param, const float* weights)>& take);
  std::string state_xxh3();  // hash of these weights

  int ranks() const { return static_cast<int>(ranks_.size()); }
  Executor& executor(int rank) { return *ranks_[static_cast<size_t>(rank)].executor; }
  const comm::Communicator& communicator(int rank) const { return *ranks_[static_cast<size_t>(rank)].dp; }
  core::Arena& arena(int rank) { return *ranks_[static_cast<size_t>(rank)].arena; }
  const Compiled& compiled() const { return compiled_; }
  const Layout& layout() const { return layout_; }

 private:
  struct Member {
    std::unique_ptr<comm::Communicator> dp;
    std::unique_ptr<core::Arena> arena;
    std::unique_ptr<Executor> executor;
  };
  void on_all_ranks(const std::function<void(size_t rank)>& body);

  const Layout& layout_;
  Compiled compiled_;
  SessionHooks hooks_;
  std::function<void(const optimizer::Unit&, const float*)> save_unit_;
  std::vector<Member> ranks_;
};

}  // namespace zrt::runtime
