// Runs a few training steps of any model under any combination of settings and returns everything comparable.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/philox.h"
#include "runtime/engine/session.h"
#include "tests/device.h"
#include "tests/runtime/comm_forecast.h"
#include "tests/temporary_folder.h"

namespace zrt::testing {

struct Islands {
  int inner = 1;  // data-parallel ranks of each
  bool hierarchical = false, secondary = false, replicated = false;
};

struct Setting {
  int ranks = 1, stage = 0;    // data-parallel ranks of each stage of a pipeline
  int tensor = 1;              // ranks that share the work of blocks; the model is made for as many
  bool rows = false;           // they share rows, too
  int expert = 1;              // data-parallel ranks that have other experts each
  runtime::Schedule schedule;  // its stages and kind; microbatches are `accumulation`
  runtime::GatheredFor gathered_for = runtime::GatheredFor::use;
  core::DType compute = core::DType::f32;
  bool fp8 = false, master = true;
  std::optional<core::Form> frozen;  // of matrices that are not trained
  uint32_t accumulation = 1, reduce_every = 1;
  bool narrow_sums = false;  // microbatches are summed in the type of the weights
  int64_t micro_batch = 2, unit_elements = 1 << 20, bucket = 1 << 20;
  bool overlap = false, reuse_at_turn = true, serialize = false;
  std::optional<int64_t> prefetch;
  int64_t max_live = INT64_MAX, persistence = 0;
  Islands groups;
  std::vector<runtime::Recompute> recompute;  // by block, over and over
  int steps = 5, threads = 1;
  uint64_t stress_seed = 0;
  uint64_t seed = 7;
  double rate = 1e-2;  // of learning
  optimizer::OptimizerPtr optimizer = make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true});
  bool eval = false;
  optimizer::LossScaleParams loss_scale;
  double clip = 1;
  bool early_updates = false, late_updates = false;
  std::function<runtime::Placement(const runtime::Layout&)> placement;  // none: everything on the device
  const runtime::MicrobatchOrder* order = runtime::MicrobatchOrder::automatic;
  double link_bytes_per_second = 0, nvme_bytes_per_second = 0;
  std::chrono::milliseconds timeout{60000};
  // Says which targets enter the loss; none: all do.
  std::function<bool(uint32_t step, uint64_t sample, int64_t t)> counts;
  // Says where a token stands in its document; none: samples are one document each.
  std::function<int32_t(uint64_t sample, int64_t t)> positions;
  // Called before a batch is made; for delays and failures.
  std::function<void(int rank, uint32_t step, uint32_t microbatch)> on_batch;
};

// Serialized runs poison dead buffers: AddressSanitizer ends the process at the first use of one.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool poisons = true;
#else
inline constexpr bool poisons = false;
#endif

// True where the long form of tests is asked for.
inline bool full_tests() {
  return std::getenv("ZRT_FULL_TESTS") != nullptr;
}

// True for settings that a sweep leaves out because it runs on the processor as well. A GPU takes every third setting:
// one that the host plays needs minutes for all. The thread sanitizer takes every second one.
inline bool left_to_processor(unsigned number) {
#ifdef __SANITIZE_THREAD__
  if (number % 2 != 0) return !full_tests();
#endif
  return !full_tests() && test::test_device() == core::DeviceKind::cuda && number % 3 != 0;
}

inline runtime::Layout make_layout(const models::Model& model, const Setting& s) {
  runtime::Layout layout;
  layout.model = std::make_shared<const models::Model>(model);
  layout.zero = optimizer::zero_strategy(s.stage);
  layout.optimizer = s.optimizer;
  layout.device = test::test_device();
  layout.mesh = {s.ranks * s.tensor * s.schedule.stages, s.tensor, s.schedule.stages, s.groups.inner, s.expert};
  layout.groups = {s.groups.hierarchical, s.groups.secondary, s.groups.replicated};
  const optimizer::Cut cut{layout.mesh, layout.groups.shard_axes(), layout.zero, s.optimizer->alignment(), s.frozen};
  layout.units = optimizer::make_units(model, cut, s.unit_elements, {s.persistence, INT64_MAX}, s.optimizer.get());
  layout.compute = s.compute;
  layout.fp8 = s.fp8;
  layout.master = s.master;
  layout.local_grad = (s.reduce_every == 1 || s.narrow_sums) && !model.shares_layers ? s.compute : core::DType::f32;
  layout.grad = (s.accumulation == 1 || s.narrow_sums) && !model.shares_layers ? s.compute : core::DType::f32;
  layout.microbatches = s.accumulation;
  layout.reduce_every = s.reduce_every;
  layout.micro_batch = s.micro_batch;
  layout.sequence = model.sequence;
  layout.documents = s.positions != nullptr;
  layout.reduce_bucket = layout.gather_bucket = s.bucket;
  layout.overlap = s.overlap;
  layout.prefetch = s.prefetch;
  layout.max_live = s.max_live;
  layout.reuse_at_turn = s.reuse_at_turn;
  layout.order = s.order;
  layout.update_when = s.early_updates  ? runtime::UpdateWhen::as_ready
                       : s.late_updates ? runtime::UpdateWhen::next_forward
                                        : runtime::UpdateWhen::after_norm;
  layout.link_bytes_per_second = s.link_bytes_per_second;
  layout.gathered_for = s.gathered_for;
  layout.stage.schedule = s.schedule;
  layout.stage.schedule.microbatches = static_cast<int32_t>(s.accumulation);
  if (s.placement) layout.placement = s.placement(layout);
  for (size_t b = 0; b < model.blocks.size() && !s.recompute.empty(); ++b) {
    layout.placement.recompute.push_back(s.recompute[b % s.recompute.size()]);
  }
  return layout;
}

struct Outcome {
  std::string state;  // state_xxh3 after the last step
  std::vector<double> losses, norms, loss_scales;
  std::vector<uint64_t> planned, measured;  // of the device tier, by rank
  bool file_agrees = true;                  // what the ranks' files have counted is what their executors have
  std::array<uint64_t, 2> planned_behind{}, measured_behind{};  // of the host and NVMe tiers, the largest of any rank
  runtime::Moved moved, moved_forecast;                         // by rank 0 in the last step
  runtime::MemoryPlan plan;
  std::vector<runtime::LivePeak> live;  // by rank, serialized runs
  CommForecast forecast;
  std::map<runtime::OpKind, runtime::CommVolume> comm;  // rank 0, all steps
  std::vector<uint64_t> received;                       // by rank: over boundaries between stages, all steps
  double eval_loss = 0;
  double exposed_comm = 0, exposed_io = 0;            // rank 0, last step
  std::vector<float> weights;                         // whole model, canonical order
  std::map<std::string, std::vector<float>> tensors;  // the same by name
};

// |a - b| / |b| over all weights.
inline double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<double>(a.at(i)), y = static_cast<double>(b[i]);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

// StepInputs::counted of a step.
inline int64_t counted_targets(const runtime::Layout& layout, const Setting& s, uint32_t step) {
  if (!s.counts) return -1;
  const auto samples = static_cast<uint64_t>(layout.micro_batch * layout.mesh.data() * layout.microbatches);
  int64_t counted = 0;
  for (uint64_t sample = 0; sample < samples; ++sample) {
    for (int64_t t = 0; t < layout.sequence; ++t) counted += s.counts(step, sample, t) ? 1 : 0;
  }
  return counted;
}

// Tokens depend on (step, global sample, position) only, so that every mesh sees the same data.
inline void synthetic_batch(const runtime::Layout& layout, uint32_t step, int rank, uint32_t microbatch,
                            const runtime::data::SampleRows& to, const Setting& s = {}) {
  for (int64_t b = 0; b < layout.micro_batch; ++b) {
    const auto data_rank = static_cast<uint64_t>(layout.mesh.place(runtime::data_axes, rank));
    const uint64_t sample = (uint64_t{microbatch} * static_cast<uint64_t>(layout.mesh.data()) + data_rank) *
                                static_cast<uint64_t>(layout.micro_batch) +
                            static_cast<uint64_t>(b);
    for (int64_t t = 0; t < layout.sequence; ++t) {
      const uint64_t at = sample * 4096 + static_cast<uint64_t>(t);
      const auto word = [&](uint64_t i) {
        return static_cast<int32_t>(core::random_word({99, step, 5}, i) % static_cast<uint32_t>(layout.model->vocab));
      };
      const int64_t row = b * layout.sequence + t;
      to.tokens[row] = word(at);
      if (to.positions) to.positions[row] = s.positions(sample, t);
      if (to.targets) to.targets[row] = word(at + 1);
      if (to.targets && s.counts && !s.counts(step, sample, t)) to.targets[row] = models::not_counted;
    }
    if (!layout.model->masking) continue;
    // Two runs of text, and a target for one token in six, which is Masking::predicted() of them.
    int32_t *row = to.tokens + b * layout.sequence, *named = to.targets ? to.targets + b * layout.sequence : nullptr;
    row[layout.sequence / 2] = layout.model->masking->separator;
    for (int64_t t = 0; named && t < layout.sequence; ++t) {
      if (t % 6 != 1) named[t] = models::not_counted;
    }
    if (named && layout.model->masking->sentence_order) named[0] = sample % 3 == 0 ? models::swapped : models::in_order;
  }
}

inline std::vector<std::string> phases_of(const Setting& s) {
  std::vector<std::string> phases{"init", "step", "export"};
  if (s.eval) phases.push_back("eval");
  return phases;
}

inline runtime::SessionOptions session_options(const Setting& s) {
  runtime::SessionOptions options;
  options.clip = s.clip;
  options.loss_scale = s.loss_scale;
  options.seed = s.seed;
  options.timeout = s.timeout;
  options.executor = {s.threads, s.serialize, s.stress_seed};
  static const TemporaryFolder scratch;
  options.share_gpu = true;
  options.nvme_path = scratch.path.string();
  options.nvme_bytes_per_second = s.nvme_bytes_per_second;
  return options;
}

// Trains with programs of all stages, compiled for layouts of the same setting. Plans and forecasts are of the first
// stage.
inline Outcome run_stages(std::vector<runtime::Compiled> stages, const Setting& s) {
  Outcome outcome;
  const runtime::Compiled& first = stages.front();
  const runtime::Layout layout = first.layout;
  outcome.plan = first.plan;
  outcome.moved_forecast = runtime::forecast_moved(first.set, first.set.program("step"));
  outcome.forecast = forecast_comm(first.set, first.set.program("step"), layout);
  uint32_t step = 0;
  runtime::Session session(std::move(stages), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              if (s.on_batch) s.on_batch(rank, step, microbatch);
                              synthetic_batch(layout, step, rank, microbatch, to, s);
                            },
                            {}});
  session.run("init", {});
  for (step = 0; step < static_cast<uint32_t>(s.steps); ++step) {
    const runtime::Moved before = session.executor(0).moved_bytes();
    session.run("step", {s.seed, step, 0, {s.rate}, 0, counted_targets(layout, s, step)});
    outcome.moved = session.executor(0).moved_bytes() - before;
    outcome.losses.push_back(session.executor(0).control().mean_loss);
    outcome.norms.push_back(session.executor(0).control().grad_norm);
    outcome.loss_scales.push_back(session.executor(0).control().loss_scale);
    outcome.exposed_comm = session.executor(0).exposed_comm_seconds();
    outcome.exposed_io = session.executor(0).exposed_io_seconds();
  }
  outcome.comm = session.executor(0).comm_volume();
  if (s.eval) {
    session.run("eval", {s.seed, step, 0, {}});
    outcome.eval_loss = session.executor(0).control().mean_loss;
  }
  outcome.state = session.state_xxh3();
  std::map<std::string, std::vector<float>>& weights = outcome.tensors;
  session.export_weights([&](const models::Param& param, const float* values) {
    weights[param.name].assign(values, values + param.whole_elements());
  });
  std::map<uint32_t, const std::vector<float>*> ordered;
  for (int r = 0; r < layout.mesh.world(); r += layout.mesh.stage_ranks()) {
    for (const optimizer::Unit& unit : session.stage(r).layout.units.units) {
      for (const optimizer::UnitParam& place : unit.params) {
        for (int at = 0; at < place.param->places(); ++at) {
          ordered[place.number_at(at)] = &weights.at(place.param->name_at(at));
        }
      }
    }
  }
  for (const auto& [number, values] : ordered) {
    outcome.weights.insert(outcome.weights.end(), values->begin(), values->end());
  }
  for (int r = 0; r < layout.mesh.world(); ++r) {
    const runtime::MemoryPlan& plan = session.stage(r).plan;
    const auto volumes = session.executor(r).comm_volume();
    const auto over_boundaries = volumes.find(runtime::OpKind::receive);
    outcome.received.push_back(over_boundaries == volumes.end() ? 0 : over_boundaries->second.bytes);
    outcome.live.push_back(session.executor(r).live_peak());
    outcome.planned.push_back(plan.device().peak_bytes);
    outcome.measured.push_back(session.arena(r).highest_touched());
    const core::Arena* host = session.arena(r, core::Tier::host);
    const offload::BlockFile* file = session.file(r);
    const runtime::Moved all = session.executor(r).moved_bytes();
    outcome.file_agrees = outcome.file_agrees && all.read == (file ? file->bytes_read() : 0) &&
                          all.written == (file ? file->bytes_written() : 0);
    const std::array<uint64_t, 2> behind{host ? host->highest_touched() : 0, file ? file->highest_written() : 0};
    for (size_t t = 0; t < 2; ++t) {
      outcome.planned_behind[t] = std::max(outcome.planned_behind[t], plan.tiers[t + 1].peak_bytes);
      outcome.measured_behind[t] = std::max(outcome.measured_behind[t], behind[t]);
    }
  }
  return outcome;
}

inline Outcome run_compiled(runtime::Compiled compiled, const Setting& s) {
  std::vector<runtime::Compiled> stages;
  stages.push_back(std::move(compiled));
  return run_stages(std::move(stages), s);
}

inline Outcome run(const models::Model& model, const Setting& s, const runtime::Sabotage& sabotage = {},
                   bool check = true) {
  const runtime::Layout layout = make_layout(model, s);
  return run_compiled(runtime::compile(layout, phases_of(s), sabotage, check), s);
}

}  // namespace zrt::testing
