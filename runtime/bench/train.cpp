#include <fmt/format.h>

#include <memory>

#include "runtime/bench/bench.h"
#include "runtime/setup.h"

namespace zrt::runtime {
namespace {

// One stage, ready to step.
struct StageRun {
  Config config;
  Layout layout;
  std::unique_ptr<Session> session;
  std::vector<double> seconds, exposed;
};

}  // namespace

TrainBench bench_train(const Config& config, const std::vector<int>& stages, int rounds, const Progress& progress) {
  const models::Model model = make_model(config.model);
  uint32_t step = 0;
  std::vector<std::unique_ptr<StageRun>> candidates;
  for (int stage : stages) {
    progress(fmt::format("setting up stage {}", stage));
    auto c = std::make_unique<StageRun>();
    c->config = config;
    c->config.zero.stage = stage;
    c->layout = make_layout(c->config, model);
    Layout& layout = c->layout;
    c->session = std::make_unique<Session>(layout, compile_within_budget(c->config, layout, {"init", "step"}),
                                           session_options(c->config), SessionHooks{random_batches(layout, step), {}});
    c->session->run("init", {});
    candidates.push_back(std::move(c));
  }
  TrainBench bench;
  bench.flops_per_token = model.flops_per_token();
  const Layout& layout = candidates.front()->layout;
  bench.tokens_per_step = layout.micro_batch * layout.sequence * layout.dp * static_cast<int64_t>(layout.microbatches);
  std::vector<double> ceilings, rates;
  auto measure_ceiling = [&] {
    progress("measuring the GEMM ceiling");
    ceilings.push_back(gemm_ceiling(config, 3));
    if (config.run.device == core::DeviceKind::cuda) rates.push_back(matrix_rate(3));
  };
  measure_ceiling();
  for (int round = 0; round <= rounds; ++round) {
    for (auto& c : candidates) {
      progress(fmt::format("round {} of {}, stage {}", round, rounds, c->config.zero.stage));
      StepInputs inputs;
      inputs.seed = 1;
      inputs.rates.lr = 1e-4;
      inputs.step = step;
      const double seconds = time_ranks(1, 1, [&](int) { c->session->run("step", inputs); });
      if (round == 0) continue;
      c->seconds.push_back(seconds);
      c->exposed.push_back(c->session->executor(0).exposed_comm_seconds());
    }
    ++step;
    if (round == rounds / 2) measure_ceiling();
  }
  measure_ceiling();
  bench.ceiling = spread(ceilings);
  bench.ceiling_flops_per_second = bench.ceiling.median;
  bench.matrix_rate = spread(rates);
  for (const auto& c : candidates) {
    TrainBenchStage row;
    row.stage = c->config.zero.stage;
    row.step_seconds = spread(c->seconds);
    row.tokens_per_second = static_cast<double>(bench.tokens_per_step) / row.step_seconds.median;
    row.model_flops_per_second = row.tokens_per_second * bench.flops_per_token;
    std::vector<double> ratios;
    for (size_t i = 0; i < c->seconds.size(); ++i) ratios.push_back(candidates.front()->seconds[i] / c->seconds[i]);
    row.of_first = spread(ratios);
    row.rank_bytes = c->session->compiled().plan.device().peak_bytes;
    row.exposed_comm_seconds = spread(c->exposed).median;
    bench.stages.push_back(row);
  }
  return bench;
}

}  // namespace zrt::runtime
