#include "runtime/engine/session_options.h"

namespace zrt::runtime {

SessionOptions session_options(const Config& config) {
  SessionOptions options;
  options.loss_scale = config.precision.loss_scale;
  options.clip = config.optimizer.gradient_clipping;
  options.seed = static_cast<uint64_t>(config.run.seed);
  options.timeout = std::chrono::seconds(config.run.timeout_seconds);
  options.executor = {config.run.threads_per_rank, false, static_cast<uint64_t>(config.run.stress_seed)};
  options.fast_sums = config.parallel.fast_sums;
  options.share_gpu = config.run.share_gpu;
  options.nvme_path = config.memory.nvme_path;
  return options;
}

}  // namespace zrt::runtime
