#include "runtime/bench/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "core/philox.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/gpus.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {
namespace {

// One stage, ready to step.
struct StageRun {
  Config config;
  std::unique_ptr<Session> session;
  double setup_seconds = 0;
  std::vector<double> seconds, exposed_comm, exposed_io;
  Moved moved;
};

// The same run at another stage. Stages reduce and overlap alike; keys that offload states mean what they mean there.
Config at_stage(const Config& config, int stage) {
  const Settings sets{fmt::format("zero_optimization.stage={}", stage),
                      fmt::format("zero_optimization.overlap_comm={}", config.zero.overlap_comm),
                      fmt::format("parallel.reduce_every={}", config.parallel.reduce_every)};
  return reconfigured(config, sets, config.ranks);
}

// Parameters as `load` asks for them. The length of the table is prime, so that rows of weights differ.
decltype(Rank::load) weights_of_a_table(const models::Model& model) {
  std::vector<float> table(1000003);
  core::random_normals({1, core::init_step, 0}, 0, static_cast<int64_t>(table.size()), table.data());
  std::map<std::string, std::pair<const models::Param*, size_t>> params;
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    for (int at = 0; at < param.places(); ++at) params[param.name_at(at)] = {&param, params.size() * 104729};
  }
  return [table, params](const std::string& name, int64_t begin, std::span<float> out) {
    const auto [param, shift] = params.at(name);
    if (param->init != models::Init::normal) {
      std::fill(out.begin(), out.end(), param->init == models::Init::ones ? 1.0f : 0.0f);
      return;
    }
    const float deviation = param->deviation;
    size_t at = (shift + static_cast<size_t>(begin)) % table.size();
    for (size_t done = 0; done < out.size(); at = 0) {
      const size_t count = std::min(out.size() - done, table.size() - at);
      std::transform(table.begin() + static_cast<std::ptrdiff_t>(at),
                     table.begin() + static_cast<std::ptrdiff_t>(at + count),
                     out.begin() + static_cast<std::ptrdiff_t>(done), [=](float x) { return x * deviation; });
      done += count;
    }
  };
}

// Bytes that the copies of one lane moved ÷ the time that they took.
double copy_rate(Executor& executor, const ProgramSet& set, LaneKind kind) {
  double bytes = 0, seconds = 0;
  for (const TraceEvent& event : executor.trace()) {
    const Op& op = event.program->ops[event.op];
    if (set.lanes[op.lane].kind != kind || !transfers(op.kind)) continue;
    const Moved copied = moved(set, op);
    bytes += static_cast<double>(copied.to_device + copied.to_host);
    seconds += event.end_seconds - event.start_seconds;
  }
  return seconds > 0 ? bytes / seconds : 0;
}

void measure_tiers(Session& session, TrainBenchStage& row) {
  for (size_t t = 0; t < core::tier_count; ++t) {
    row.planned_bytes[t] = session.stage(0).plan.tiers[t].peak_bytes;
    const core::Arena* arena = session.arena(0, static_cast<core::Tier>(t));
    row.measured_bytes[t] = arena ? arena->highest_touched() : 0;
  }
  if (const offload::BlockFile* file = session.file(0)) {
    row.measured_bytes[static_cast<size_t>(core::Tier::nvme)] = file->highest_written();
  }
}

}  // namespace

TrainBench bench_train(const Config& config, const std::vector<int>& stages, int rounds, const std::string& python,
                       const Progress& progress) {
  std::optional<TorchProducts> torch;
  if (!python.empty()) torch.emplace(python);
  const models::Model model = config.model.make();
  uint32_t step = 0;
  std::vector<std::unique_ptr<StageRun>> candidates;
  for (int stage : stages) {
    progress(fmt::format("setting up stage {}", stage));
    const auto begin = std::chrono::steady_clock::now();
    auto c = std::make_unique<StageRun>();
    c->config = at_stage(config, stage);
    std::vector<Compiled> compiled = compile_within_budget(c->config, model, {"load", "step"});
    const Layout layout = compiled.front().layout;
    c->session = std::make_unique<Session>(std::move(compiled), session_options(c->config),
                                           SessionHooks{random_batches(layout, step), weights_of_a_table(model)});
    c->session->run("load", {});
    c->setup_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    candidates.push_back(std::move(c));
  }
  TrainBench bench;
  bench.flops_per_token = model.flops_per_token();
  bench.tokens_per_step = config.batch.train * model.sequence;
  const bool gpu = config.run.device == core::DeviceKind::cuda;
  GemmCeilings ceilings(config), fp32_ceilings = GemmCeilings::of_fp32(config);
  if (torch) ceilings.compete(&*torch), fp32_ceilings.compete(&*torch);
  const bool mixed = !gpu && config.precision.compute != core::DType::f32;
  const std::vector<int> gpus = choose_gpus(config.run.device, {config.mesh.world()}, config.run.share_gpu);
  const auto distinct = static_cast<double>(std::set<int>(gpus.begin(), gpus.end()).size());
  std::vector<double> peaks, rates;
  auto measure_ceilings = [&] {
    progress("measuring the GEMM ceiling");
    if (!gpu) peaks.push_back(fma_peak(config.mesh.world(), config.run.threads_per_rank));
    ceilings.turn();
    if (mixed) fp32_ceilings.turn();
    if (gpu) rates.push_back(distinct * matrix_rate(3));
  };
  const auto take_step = [&](StageRun& c) {
    StepInputs inputs;
    inputs.seed = 1;
    inputs.rates.lr = 1e-4;
    inputs.step = step;
    return time_ranks(1, 1, [&](int) { c.session->run("step", inputs); });
  };
  for (int round = 0; round <= rounds; ++round) {
    for (auto& c : candidates) {
      progress(fmt::format("round {} of {}, stage {}", round, rounds, c->config.zero.stage));
      Executor& executor = c->session->executor(0);
      const Moved before = executor.moved_bytes();
      const double seconds = take_step(*c);
      if (round == 0) continue;
      c->seconds.push_back(seconds);
      c->exposed_comm.push_back(executor.exposed_comm_seconds());
      c->exposed_io.push_back(executor.exposed_io_seconds());
      c->moved = executor.moved_bytes() - before;
    }
    ++step;
    measure_ceilings();
  }
  bench.ceiling = ceilings.ceiling();
  if (!gpu) bench.fp32_ceiling = mixed ? fp32_ceilings.ceiling() : bench.ceiling;
  bench.matrix_rate = spread(rates);
  bench.fma_peak = spread(peaks);
  bench.parameters = model.parameters();
  for (const auto& c : candidates) {
    TrainBenchStage row;
    row.stage = c->config.zero.stage;
    row.step_seconds = spread(c->seconds);
    row.tokens_per_second = static_cast<double>(bench.tokens_per_step) / row.step_seconds.median;
    row.model_flops_per_second = row.tokens_per_second * bench.flops_per_token;
    const double step_flops = bench.flops_per_token * static_cast<double>(bench.tokens_per_step);
    const auto by_round = [&](const std::function<double(size_t)>& ratio) {
      std::vector<double> ratios;
      for (size_t i = 0; i < c->seconds.size(); ++i) ratios.push_back(ratio(i));
      return spread(ratios);
    };
    const auto reached = [&](size_t i) { return step_flops / c->seconds[i]; };
    row.of_first = by_round([&](size_t i) { return candidates.front()->seconds[i] / c->seconds[i]; });
    row.of_ceiling = by_round([&](size_t i) { return reached(i) / ceilings.around(i); });
    if (!gpu) {
      row.of_fp32_ceiling =
          by_round([&](size_t i) { return reached(i) / (mixed ? fp32_ceilings : ceilings).around(i); });
    } else {
      row.of_matrix_rate = by_round([&](size_t i) { return 2 * reached(i) / (rates[i] + rates[i + 1]); });
    }
    row.setup_seconds = c->setup_seconds;
    row.exposed_comm_seconds = spread(c->exposed_comm).median;
    row.exposed_io_seconds = spread(c->exposed_io).median;
    row.moved = c->moved;
    if (row.moved.to_device + row.moved.to_host > 0) {
      progress(fmt::format("copies of stage {}", row.stage));
      Executor& executor = c->session->executor(0);
      executor.set_tracing(true);
      take_step(*c);
      executor.set_tracing(false);
      const ProgramSet& set = c->session->stage(0).set;
      row.to_device_bytes_per_second = copy_rate(executor, set, LaneKind::to_device);
      row.to_host_bytes_per_second = copy_rate(executor, set, LaneKind::to_host);
    }
    measure_tiers(*c->session, row);
    bench.stages.push_back(row);
  }
  return bench;
}

}  // namespace zrt::runtime
