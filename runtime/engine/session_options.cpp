#include "runtime/engine/session_options.h"

#include <algorithm>
#include <thread>

namespace zrt::runtime {

SessionOptions session_options(const Config& config) {
  SessionOptions options;
  options.loss_scale = config.precision.loss_scale;
  options.clip = config.optimizer.gradient_clipping;
  options.seed = static_cast<uint64_t>(config.run.seed);
  options.timeout = std::chrono::seconds(config.run.timeout_seconds);
  options.executor = {config.run.threads_per_rank, false, static_cast<uint64_t>(config.run.stress_seed)};
  // What runs on the host beside a GPU takes all cores: its results do not depend on their number.
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  options.executor.host_threads = std::max(1, cores / std::max(1, config.mesh.world()));
  options.nvme_path = config.memory.nvme_path;
  return options;
}

}  // namespace zrt::runtime
