#include "runtime/bench/predict.h"

#include <fmt/format.h>

#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {

PredictBench bench_predict(const Config& config, const models::Model& model, const Cluster& cluster,
                           comm::Transport& transport, int rounds, const Progress& progress) {
  uint32_t step = 0;
  progress("compiling");
  const SessionOptions options = session_options(config);
  std::vector<Compiled> compiled = compile_within_budget(
      config, model, {"init", "step"}, run_place(transport, config.run.device, config.run.share_gpu, options.timeout));
  PredictBench bench;
  Cluster as_run = cluster;
  as_run.fast_sums = config.parallel.fast_sums;
  as_run.nccl_inside_hosts = !transport.reads_gpus_of_peers();
  bench.predicted = std::move(simulate_step(compiled, as_run).front());
  SessionHooks hooks{random_batches(compiled.front().layout, step), {}};
  Session session(std::move(compiled), options, std::move(hooks), transport);
  session.run("init", {});
  std::vector<double> seconds, exposed;
  for (int round = 0; round <= rounds; ++round) {
    progress(fmt::format("step {} of {}", round, rounds));
    StepInputs inputs;
    inputs.seed = 1;
    inputs.rates.lr = 1e-4;
    inputs.step = step++;
    const double elapsed = time_ranks(1, 1, [&](int) { session.run("step", inputs); });
    if (round == 0) continue;
    seconds.push_back(elapsed);
    exposed.push_back(session.executor(0).exposed_comm_seconds());
  }
  bench.step_seconds = spread(seconds);
  bench.exposed_comm_seconds = spread(exposed);
  return bench;
}

}  // namespace zrt::runtime
