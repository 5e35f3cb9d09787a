#include "runtime/config/build.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "core/keys/text.h"
#include "optimizer/zero.h"

namespace zrt::runtime::configuration {
namespace {

constexpr double least_clipping = 1e-30;  // far enough above fp32's least number that factors of large norms hold

constexpr const char* batch_keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                      "gradient_accumulation_steps"};

// The number of ranks that a complete triple implies.
int implied_ranks(const Values& values, int tensor, int stages) {
  for (const char* key : batch_keys) {
    if (values.is_null(key)) values.missing(key, "without it the ranks are not known.");
  }
  const int64_t train = values.integer("train_batch_size");
  const int64_t micro = values.integer("train_micro_batch_size_per_gpu");
  const int64_t steps = values.integer("gradient_accumulation_steps");
  const int64_t data_ranks = std::min<int64_t>(train / micro / steps, core::Mesh::max_ranks);
  // More than a mesh may have are refused with it.
  return static_cast<int>(std::min<int64_t>(data_ranks * tensor * stages, core::Mesh::max_ranks + 1));
}

// Says where the keys of the triple are given, or left out as "auto".
std::string batch_places(const Values& values) {
  std::string text;
  for (const char* key : batch_keys) {
    const Value* open = values.left_out(key);
    if (open == nullptr && !values.given(key)) continue;
    text += (text.empty() ? " Seen: " : ", ") +
            (open ? shown(*open) + ", which counts as left out" : key + (" (" + values.at(key).place) + ")");
  }
  return text.empty() ? text : text + ".";
}

void build_batch(Values& values, int data_ranks, BatchConfig& batch) {
  const std::optional<int64_t> train = values.optional_integer("train_batch_size"),
                               micro = values.optional_integer("train_micro_batch_size_per_gpu"),
                               accumulation = values.optional_integer("gradient_accumulation_steps");
  try {
    batch = resolve_batch(train, micro, accumulation, data_ranks);
  } catch (const core::ConfigError& error) {
    int line = 0;
    for (const char* key : batch_keys) {
      const Value* open = values.left_out(key);
      if (line == 0) line = open ? open->line : values.at(key).line;
    }
    throw Refusal(error.what() + batch_places(values), batch_keys[0], line);
  }
  if (!train && !micro) {
    values.warnings.push_back(
        "no batch size is given: train_micro_batch_size_per_gpu = 1 is used, so that a step has " +
        std::to_string(batch.train) + (batch.train == 1 ? " sample" : " samples") + ". Set it or train_batch_size." +
        batch_places(values));
  }
  if (!train) values.infer("train_batch_size", batch.train);
  if (!micro) values.infer("train_micro_batch_size_per_gpu", batch.micro);
  if (!accumulation) values.infer("gradient_accumulation_steps", batch.accumulation);
}

// A group of `key` ranks. The values of `none` stand for no groups, which is 1.
int group_size(const Values& values, const char* key, std::initializer_list<int> none, int data_ranks) {
  const int64_t size = values.integer(key);
  if (std::find(none.begin(), none.end(), size) != none.end()) return 1;
  if (size < 1 || data_ranks % size != 0) {
    std::vector<std::string> legal;
    for (const int value : none) legal.push_back(std::to_string(value));
    for (int divisor = 2; divisor <= data_ranks && legal.size() < 16; ++divisor) {
      if (data_ranks % divisor == 0) legal.push_back(std::to_string(divisor));
    }
    refuse(values.at(key), "must divide the " + std::to_string(data_ranks) + " data-parallel ranks. Legal are " +
                               join(legal) +
                               ". Try the number of data-parallel ranks of a host: its ranks divided by "
                               "parallel.tensor.");
  }
  return static_cast<int>(size);
}

void build_groups(const Values& values, ZeroConfig& zero, ParallelConfig& parallel, int data_ranks) {
  constexpr const char *hpz = "zero_optimization.zero_hpz_partition_size", *mics = "zero_optimization.mics_shard_size",
                       *hierarchical = "parallel.hierarchical_ranks";
  values.check([&] { zero.hpz_partition_size = group_size(values, hpz, {0, 1}, data_ranks); });
  values.check([&] {
    if (values.at(mics).value == 1) refuse(values.at(mics), "would shard nothing; legal: -1, 0 and 2 or more.");
    const int size = group_size(values, mics, {-1, 0}, data_ranks);
    zero.mics_shard_size = size == 1 ? 0 : size;
  });
  if (zero.mics_shard_size == data_ranks) zero.mics_shard_size = 0;
  values.check([&] { parallel.hierarchical_ranks = group_size(values, hierarchical, {1}, data_ranks); });
  for (const char* key : {hpz, mics}) {
    const bool set = key == hpz ? zero.hpz_partition_size > 1 : zero.mics_shard_size > 0;
    if (!set || values.wrong("zero_optimization.stage")) continue;
    if (optimizer::zero_strategy(zero.stage).weights == optimizer::Extent::shard) continue;
    values.check([&] { refuse(values.at(key), "belongs to zero_optimization.stage 3."); });
  }
  values.check([&] {
    if (zero.mics_shard_size == 0 || (zero.hpz_partition_size <= 1 && parallel.hierarchical_ranks <= 1)) return;
    refuse(values.at(mics),
           "cannot be combined with zero_hpz_partition_size or parallel.hierarchical_ranks: its "
           "collectives have the levels of its shard groups. Set one of them.");
  });
  values.check([&] {
    if (zero.hpz_partition_size <= 1 || parallel.hierarchical_ranks <= 1 ||
        zero.hpz_partition_size == parallel.hierarchical_ranks) {
      return;
    }
    refuse(values.at(hpz), "must equal parallel.hierarchical_ranks = " + std::to_string(parallel.hierarchical_ranks) +
                               " where both are set.");
  });
}

void refuse_islands_of_experts(const Values& values, int island) {
  constexpr const char* key = "parallel.expert";
  if (values.integer(key) == 1 || island == 1) return;
  refuse(values.at(key),
         "cannot be combined with islands of ranks (parallel.hierarchical_ranks, zero_hpz_partition_size, "
         "mics_shard_size): units of experts are cut among ranks that lie across them. Leave one of them out.");
}

// Without `steps` the accumulation steps are not known, because the batch is wrong.
int64_t reduce_every(Values& values, const ZeroConfig& zero, const MicrobatchOrder& order, std::optional<int64_t> steps,
                     int stages) {
  constexpr const char* key = "parallel.reduce_every";
  const int64_t accumulation = steps.value_or(1);
  // Stages of a pipeline come to a microbatch's backward in all of their layers before the next one's.
  const bool one = stages > 1 && !values.is_null("pseudo_to_real.groups");
  if (values.is_null(key)) {
    const int64_t usual = optimizer::zero_strategy(zero.stage).reduce_every_by_default(accumulation);
    values.infer(key, one ? 1 : order.reduce_every(accumulation, usual));
  }
  const int64_t every = values.integer(key);
  if (one && every != 1) {
    refuse(
        values.at(key),
        "must be 1 where layers of a pipeline share parameters (pseudo_to_real): gradients of these are added up one "
        "microbatch after another. Leave it out.");
  }
  if (steps && accumulation % every != 0) {
    refuse(values.at(key), "must divide gradient_accumulation_steps = " + std::to_string(accumulation) + ". Try 1 or " +
                               std::to_string(accumulation) + ".");
  }
  return every;
}

models::MakeModel frozen_by(const std::vector<optimizer::ParamGroup>& groups, const models::MakeModel& make) {
  return [groups, make] {
    models::Model model = make();
    if (groups.empty() && model.adapters.rank == 0) return model;
    model.frozen = optimizer::frozen_names(groups, model);
    return model;
  };
}

MonitorConfig build_monitor(const Values& values, const std::string& section) {
  values.check([&] {
    const std::filesystem::path name = values.text(section + ".job_name");
    const bool climbs = std::find(name.begin(), name.end(), "..") != name.end();
    if (!climbs && !name.is_absolute()) return;
    refuse(values.at(section + ".job_name"),
           "leaves output_path: it must name a folder in it, without '..' and not from the root. Try " + section +
               ".output_path for another place.");
  });
  values.check([&] {
    const std::filesystem::path name = values.text(section + ".job_name");
    const bool names =
        std::none_of(name.begin(), name.end(), [](const auto& part) { return part.empty() || part == "."; });
    if (!values.flag(section + ".enabled") || (names && !name.empty())) return;
    refuse(
        values.at(section + ".job_name"),
        "names no folder: it must be the name of one in output_path, such as \"DeepSpeedJobName\", which it is where "
        "the key is left out.");
  });
  return {values.flag(section + ".enabled"), values.text(section + ".output_path"), values.text(section + ".job_name")};
}

}  // namespace

Config build_config(Values& values, int ranks, const std::string& name) {
  Config config;
  models::Degrees degrees;
  int stages = 1;
  const bool meshed = values.check([&] {
    degrees = build_degrees(values);
    config.parallel.cluster = optional_text(values, "parallel.cluster");
    config.parallel.fast_sums = values.choice("parallel.sums") == "fast";
    stages = build_stages(values);
    config.ranks = ranks != 0 ? ranks : implied_ranks(values, degrees.tensor, stages);
    config.mesh = core::Mesh(config.ranks, degrees.tensor, stages, 1, degrees.expert);
  });
  const int data_ranks = config.mesh.data();
  // Keys that depend on the batch are judged only where it is known.
  const bool batched = meshed && values.check([&] { build_batch(values, data_ranks, config.batch); });

  values.check([&] { values.choice("gradient_allreduce_op"); });
  values.check([&] { config.zero = build_zero(values); });
  if (meshed) {
    build_groups(values, config.zero, config.parallel, data_ranks);
    const int island =
        std::max({1, config.zero.hpz_partition_size, config.zero.mics_shard_size, config.parallel.hierarchical_ranks});
    values.check([&] { refuse_islands_of_experts(values, island); });
    if (degrees.expert == 1) config.mesh = core::Mesh(config.ranks, degrees.tensor, stages, island);
  }
  values.check([&] { check_prescale(values, config.zero); });
  const std::optional<int64_t> steps = batched ? std::optional(config.batch.accumulation) : std::nullopt;
  build_pipeline(values, steps, stages, config.parallel);
  values.check([&] { config.memory.order = build_microbatch_order(values); });
  const bool counted = values.check(
      [&] { config.parallel.reduce_every = reduce_every(values, config.zero, *config.memory.order, steps, stages); });
  const bool known = counted && batched;
  const bool typed =
      build_precision(values, known ? steps : std::nullopt, known ? config.parallel.reduce_every : 1, config.precision);
  values.check([&] { config.run = build_run(values, name); });
  if (config.parallel.fast_sums && config.run.device != core::DeviceKind::cuda) {
    values.warnings.push_back(
        "parallel.sums = \"fast\" has no effect without run.device = \"cuda\": NCCL connects GPUs.");
  }
  config.tensorboard = build_monitor(values, "tensorboard");
  config.csv_monitor = build_monitor(values, "csv_monitor");
  const bool optimized = values.check([&] { config.optimizer = build_optimizer(values); });
  config.optimizer.gradient_clipping = values.real("gradient_clipping");
  values.check([&] {
    const double norm = config.optimizer.gradient_clipping;
    if (norm == 0 || norm >= least_clipping) return;
    refuse(values.at("gradient_clipping"),
           "is below the smallest numbers of fp32, to which gradients would be scaled down: no weight would move. "
           "Legal are 0, which clips nothing, and 1e-30 or more.");
  });
  values.check([&] { config.model = build_model(values, degrees); });
  if (config.model.make) config.model.make = frozen_by(config.optimizer.groups, config.model.make);
  if (config.model.layers > 0) config.pseudo_to_real = build_pseudo_to_real(values, config.model.layers);
  build_data(values, config.data);
  values.check([&] {
    if (config.data.documents != data::DocumentUse::separate || !config.model.sparse.pattern.sparse()) return;
    refuse(
        values.at("data.documents"),
        "is not for sparse_attention, whose blocks count from the begin of a sample: what a document attends to would "
        "depend on where it stands. Use alone or joined, or a model with a sliding window.");
  });
  if (batched && config.model.make) values.check([&] { build_length(values, config, config.run); });
  values.check([&] { config.schedule = build_schedule(values, config.optimizer, config.run.steps); });
  build_memory(values, config.zero, config.run, config.memory);
  if (optimized && typed) {
    values.check([&] { build_forms(values, config); });
    values.check([&] { build_update_when(values, config); });
  }

  values.warn_of_autos();
  config.warnings = values.warnings, config.notes = values.notes;
  for (const Value& value : values.all()) {
    config.keys.push_back({value.path, value.value.dump(), std::string(from_name(value.from))});
  }
  return config;
}

}  // namespace zrt::runtime::configuration
