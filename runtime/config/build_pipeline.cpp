#include "core/error.h"
#include "optimizer/zero.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr int64_t most_blocks = 1 << 16, most_microbatches = 1 << 16;
constexpr const char *tensor_key = "parallel.tensor", *sequence_key = "parallel.sequence",
                     *stages_key = "parallel.pipeline", *chunks_key = "parallel.virtual_pipeline",
                     *schedule_key = "parallel.schedule", *group_key = "parallel.microbatch_group",
                     *partition_key = "parallel.partition", *gathered_key = "parallel.gathered_for";

// Sets a key that nobody gave to this value, whatever was inferred for another run.
void settle(Values& values, const char* key, const nlohmann::json& value) {
  if (!values.given(key) && values.at(key).value != value) values.infer(key, value);
}
nlohmann::json fallback_of(const Value& value) {
  return nlohmann::json::parse(value.key->fallback);
}

// DeepSpeed's key stands for zrt's own where that is not given. `open`: the value of theirs that says nothing.
void take_over(Values& values, const char* theirs, const nlohmann::json& open, const char* own) {
  const Value& said = values.at(theirs);
  if (said.value == open) return settle(values, own, fallback_of(values.at(own)));
  settle(values, own, said.value);
  if (values.at(own).value == said.value) return;
  refuse(said, "contradicts " + shown(values.at(own)) + ". Remove one of them.");
}

void read_order(Values& values, Schedule& schedule) {
  schedule.chunks = static_cast<int32_t>(values.integer(chunks_key));
  settle(values, schedule_key, schedule.chunks > 1 ? "interleaved" : "1f1b");
  const std::string name = values.choice(schedule_key);
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    if (name == schedule_name(kind)) schedule.kind = kind;
  }
  const bool interleaved = schedule.kind == ScheduleKind::interleaved;
  if (schedule.chunks > 1 && !interleaved) {
    refuse(values.at(chunks_key), "needs parallel.schedule = \"interleaved\"; with " + name +
                                      " a stage has one chunk. Set that schedule, or leave both out.");
  }
  if (!interleaved && values.given(group_key) && !values.is_null(group_key)) {
    refuse(values.at(group_key), "belongs to parallel.schedule = \"interleaved\". Remove it.");
  }
  if (!interleaved) return settle(values, group_key, nullptr);
  if (values.is_null(group_key) || !values.given(group_key)) values.infer(group_key, schedule.stages);
  schedule.group = static_cast<int32_t>(values.integer(group_key));
}

// `chunks`: of all stages together.
void read_partition(const Values& values, int64_t chunks, Partition& partition) {
  const Value& value = values.at(partition_key);
  if (!value.value.is_array()) {
    const std::string name = values.choice(partition_key);
    partition.by = name == "time"         ? Partition::By::time
                   : name == "parameters" ? Partition::By::parameters
                                          : Partition::By::blocks;
    return;
  }
  partition.by = Partition::By::list;
  for (const auto& count : value.value) {
    if (!count.is_number_integer() || count < 1 || count > most_blocks) {
      refuse(value, "must hold numbers of blocks, each from 1 to " + std::to_string(most_blocks) + ".");
    }
    partition.counts.push_back(count.get<int64_t>());
  }
  if (static_cast<int64_t>(partition.counts.size()) != chunks) {
    refuse(value, "must hold a number for each of the " + std::to_string(chunks) +
                      " chunks (parallel.pipeline × parallel.virtual_pipeline), in the order of the model.");
  }
}

void read_gathered_for(Values& values, ParallelConfig& parallel) {
  const std::string name = values.choice(gathered_key);
  const auto zero = optimizer::zero_strategy(static_cast<int>(values.integer("zero_optimization.stage")));
  if (name != "auto" && zero.weights == optimizer::Extent::full) {
    values.warnings.push_back(
        without_effect(values.at(gathered_key), "only zero_optimization.stage 3 gathers weights for a use"));
  }
  for (const GatheredFor longer : {GatheredFor::use, GatheredFor::run, GatheredFor::step}) {
    if (name == gathered_for_name(longer)) parallel.gathered_for = longer;
  }
}

// Keys of a pipeline must be legal without one too, but say nothing then.
void warn_without_pipeline(Values& values) {
  values.check([&] { values.integer(chunks_key); });
  values.check([&] { values.optional_integer(group_key); });
  values.check([&] { values.choice(schedule_key); });
  values.check([&] { values.choice(gathered_key); });
  values.check([&] {
    if (!values.at(partition_key).value.is_array()) values.choice(partition_key);
  });
  settle(values, schedule_key, "1f1b");
  settle(values, group_key, nullptr);
  for (const char* key : {chunks_key, schedule_key, group_key, partition_key, gathered_key, "pipeline.partition"}) {
    const Value& value = values.at(key);
    if (!values.given(key) || value.value == fallback_of(value)) continue;
    values.warnings.push_back(without_effect(value, "with parallel.pipeline = 1 there is no pipeline"));
  }
}

int build_tensor(Values& values) {
  // DeepSpeed has the degree at two places, of which at most one says it.
  const char *first = "tensor_parallel.autotp_size", *second = "tensor_parallel.tp.tp_size";
  const int64_t one = values.integer(first), two = values.integer(second);
  if (one > 0 && two > 1 && one != two) {
    refuse(values.at(second), "contradicts " + shown(values.at(first)) + ". Remove one of them.");
  }
  const bool other = one == 0 && two != 1;
  other ? take_over(values, second, 1, tensor_key) : take_over(values, first, 0, tensor_key);
  return static_cast<int>(values.integer(tensor_key));
}

bool build_sequence(Values& values, int tensor) {
  const char* partition = "activation_checkpointing.partition_activations";
  const bool partitions = values.flag(partition);
  if (tensor > 1) {
    take_over(values, partition, false, sequence_key);
    return values.flag(sequence_key);
  }
  if (partitions) {
    values.warnings.push_back(without_effect(
        values.at(partition),
        "there are no tensor-parallel ranks to cut activations among; parallel.tensor above 1 makes them"));
  }
  if (!values.flag(sequence_key)) return false;
  values.warnings.push_back(
      without_effect(values.at(sequence_key), "with parallel.tensor = 1 nobody shares tokens; set it to 2 or more"));
  return false;
}

}  // namespace

models::Degrees build_degrees(Values& values) {
  const int tensor = build_tensor(values);
  return {tensor, build_sequence(values, tensor), static_cast<int>(values.integer("parallel.expert"))};
}

int build_stages(Values& values) {
  if (values.at("pipeline.stages").value != "auto") values.integer("pipeline.stages");
  take_over(values, "pipeline.stages", "auto", stages_key);
  return static_cast<int>(values.integer(stages_key));
}

void build_pipeline(Values& values, std::optional<int64_t> microbatches, int stages, ParallelConfig& parallel) {
  Schedule& schedule = parallel.schedule;
  schedule.stages = stages;
  values.check([&] {
    values.choice("pipeline.partition");
    take_over(values, "pipeline.partition", "best", partition_key);
  });
  if (schedule.stages == 1) return warn_without_pipeline(values);
  values.check([&] {
    read_order(values, schedule);
    if (!microbatches || *microbatches > most_microbatches) return;  // which is refused elsewhere
    schedule.microbatches = static_cast<int32_t>(*microbatches);
    try {
      check_schedule(schedule);
    } catch (const core::ConfigError& error) {
      refuse(values.at(schedule_key), std::string("is not possible: ") + error.what() +
                                          ". Change gradient_accumulation_steps, parallel.microbatch_group or "
                                          "parallel.pipeline.");
    }
  });
  values.check([&] { read_gathered_for(values, parallel); });
  values.check([&] { read_partition(values, int64_t{schedule.stages} * schedule.chunks, parallel.partition); });
}

}  // namespace zrt::runtime::configuration
