#include "runtime/setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/parallel.h"

namespace zrt::runtime {

void check_sizes(const Config& config) {
  auto check = [](const char* key, int64_t value, int64_t most) {
    if (value <= most) return;
    throw core::ConfigError(fmt::format("{} is {}; legal are 1 to {}. Choose a smaller number.", key, value, most));
  };
  check("--ranks (threads of one process)", config.mesh.world(), 1024);
  check("model.layers", config.model.layers, 2048);
  check("gradient_accumulation_steps", config.batch.accumulation, 1 << 16);
  check("train_micro_batch_size_per_gpu", config.batch.micro, (int64_t{1} << 31) / config.model.sequence);
  check("run.steps", config.run.steps, (int64_t{1} << 31) / config.batch.train);
}

models::Model make_model(const ModelConfig& config) {
  if (config.type == "llama") {
    return models::make_llama({config.layers, config.hidden, config.heads, config.kv_heads, config.ffn, config.sequence,
                               config.vocab, config.rope_theta, config.rope_scaling,
                               static_cast<float>(config.rms_norm_eps), config.tied});
  }
  return models::make_gpt2({config.layers, config.hidden, config.heads, config.sequence, config.vocab,
                            static_cast<float>(config.dropout), config.tied});
}

Layout make_layout(const Config& config, const models::Model& model) {
  check_sizes(config);
  Layout layout;
  layout.model = &model;
  layout.zero = optimizer::zero_strategy(config.zero.stage);
  layout.optimizer = config.optimizer.params;
  layout.dp = config.mesh.data();
  layout.compute = config.precision.compute;
  layout.local_grad = config.precision.local_grad;
  layout.grad = config.precision.accumulated_grad;
  const auto unit_elements =
      std::max<int64_t>(1, config.memory.unit_bytes / static_cast<int64_t>(core::dtype_size(layout.compute)));
  const int inner =
      std::max({config.zero.hpz_partition_size, config.zero.mics_shard_size, config.parallel.hierarchical_ranks});
  layout.groups = {inner, config.parallel.hierarchical_ranks > 1, config.zero.hpz_partition_size > 1,
                   config.zero.mics_shard_size > 0};
  optimizer::Persistence persistence{config.zero.param_persistence_threshold, config.zero.model_persistence_threshold};
  if (layout.zero.weights == optimizer::Extent::full) persistence = {};
  layout.units = optimizer::make_units(model, {layout.dp, layout.shards()}, unit_elements, persistence);
  layout.microbatches = static_cast<uint32_t>(config.batch.accumulation);
  layout.reduce_every = static_cast<uint32_t>(config.parallel.reduce_every);
  layout.micro_batch = config.batch.micro;
  layout.sequence = model.sequence;
  layout.reduce_bucket = config.zero.reduce_bucket_size;
  layout.gather_bucket = config.zero.allgather_bucket_size;
  layout.overlap = config.zero.overlap_comm;
  layout.prefetch = config.zero.prefetch_bucket_size;
  layout.max_live = config.zero.max_live_parameters;
  // Nothing lies between the last forward and the first backward, so the distance is what stays gathered meanwhile.
  int64_t last_block = 0;
  for (uint32_t u : layout.units.blocks.back()) last_block += layout.units.units[u].parameters();
  layout.reuse_at_turn = config.zero.max_reuse_distance >= last_block;
  return layout;
}

SessionOptions session_options(const Config& config) {
  SessionOptions options;
  options.loss_scale = config.precision.loss_scale;
  options.clip = config.optimizer.gradient_clipping;
  options.seed = static_cast<uint64_t>(config.run.seed);
  options.timeout = std::chrono::seconds(config.run.timeout_seconds);
  options.executor = {config.run.threads_per_rank, false};
  return options;
}

namespace {

struct Alternative {
  int stage;
  int64_t micro, accumulation;
  uint64_t peak;
};

bool given(const Config& config, std::string_view path) {
  return std::any_of(config.keys.begin(), config.keys.end(), [&](const ResolvedKey& key) {
    return key.path == path && (key.from == "file" || key.from == "command line");
  });
}

// The first setting that fits: all stages from the given one up at this microbatch, then at its divisors.
std::optional<Alternative> nearest_fit(const Config& config, const Layout& layout,
                                       const std::vector<std::string>& phases, uint64_t budget) {
  for (int64_t micro = config.batch.micro; micro >= 1; --micro) {
    if (config.batch.micro % micro != 0) continue;
    for (int stage = config.zero.stage; stage <= 3; ++stage) {
      Config other = config;
      other.zero.stage = stage;
      other.batch.micro = micro;
      other.batch.accumulation = config.batch.accumulation * (config.batch.micro / micro);
      if (other.batch.accumulation > 1) other.precision.accumulated_grad = core::DType::f32;
      // What was inferred is inferred anew, as it will be when the advice is followed.
      const optimizer::ZeroStrategy zero = optimizer::zero_strategy(stage);
      if (!given(config, "zero_optimization.overlap_comm")) other.zero.overlap_comm = zero.overlap_by_default();
      if (!given(config, "parallel.reduce_every")) {
        other.parallel.reduce_every = zero.reduce_every_by_default(other.batch.accumulation);
      }
      other.precision.local_grad = other.parallel.reduce_every > 1  ? core::DType::f32
                                   : config.batch.accumulation == 1 ? config.precision.local_grad
                                                                    : other.precision.compute;
      const Layout candidate = make_layout(other, *layout.model);
      const Compiled compiled = compile(candidate, phases, {}, false);
      if (compiled.plan.device().peak_bytes <= budget)
        return Alternative{stage, micro, other.batch.accumulation, compiled.plan.device().peak_bytes};
    }
  }
  return std::nullopt;
}

}  // namespace

Compiled compile_within_budget(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                               int host_ranks) {
  core::set_threads(config.run.threads_per_rank);
  Compiled compiled = compile(layout, phases);
  const auto machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto ranks = static_cast<uint64_t>(host_ranks > 0 ? host_ranks : layout.dp);
  const uint64_t device = compiled.plan.device().peak_bytes, host = compiled.plan.host().peak_bytes;
  if (device + host > machine / ranks) {
    throw core::MemoryError(fmt::format(
        "{} ranks need {} bytes each ({}; the peak is in phase '{}' at '{}'){} but this machine has {}. Use fewer "
        "ranks, a "
        "higher zero_optimization.stage, a smaller train_micro_batch_size_per_gpu or a smaller model.",
        ranks, device, core::format_bytes(device), compiled.plan.device().peak_phase, compiled.plan.device().peak_op,
        host > 0 ? fmt::format(" and {} bytes for checkpoints beside training", host) : "",
        core::format_bytes(machine)));
  }
  if (config.memory.host_budget_bytes && host > static_cast<uint64_t>(*config.memory.host_budget_bytes)) {
    throw core::MemoryError(fmt::format(
        "memory.host_budget_bytes is {} but each rank needs {} bytes ({}) in the host tier, for what it writes to a "
        "checkpoint while training goes on. Raise it to that, or set run.checkpoint_interval to 0: the checkpoint of "
        "the "
        "last step is written without copies.",
        *config.memory.host_budget_bytes, host, core::format_bytes(host)));
  }
  if (!config.memory.device_budget_bytes) return compiled;
  const auto budget = static_cast<uint64_t>(*config.memory.device_budget_bytes);
  const MemoryPlan& plan = compiled.plan;
  if (plan.device().peak_bytes <= budget) return compiled;
  const auto fit = nearest_fit(config, layout, phases, budget);
  const std::string advice =
      fit ? fmt::format(
                "The nearest setting that fits: zero_optimization.stage {}, train_micro_batch_size_per_gpu {}, "
                "gradient_accumulation_steps {}, with a peak of {} bytes.",
                fit->stage, fit->micro, fit->accumulation, fit->peak)
          : "No stage or smaller microbatch fits on this number of ranks; use more ranks, a smaller model or a larger "
            "budget.";
  throw core::MemoryError(fmt::format(
      "memory.device_budget_bytes is {} but each rank needs {} bytes ({}; the peak is in phase '{}' at '{}'). {}\n"
      "The largest buffers:\n{}",
      budget, plan.device().peak_bytes, core::format_bytes(plan.device().peak_bytes), plan.device().peak_phase,
      plan.device().peak_op, advice, core::format_ledger(plan.ledger, 12)));
}

}  // namespace zrt::runtime
