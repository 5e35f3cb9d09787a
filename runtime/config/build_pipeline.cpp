#include "core/error.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char *stages_key = "parallel.pipeline", *chunks_key = "parallel.virtual_pipeline",
                     *schedule_key = "parallel.schedule", *group_key = "parallel.microbatch_group",
                     *partition_key = "parallel.partition", *gathered_key = "parallel.gathered_for";

// What DeepSpeed's key says stands for zrt's own where that is not given.
void take_over(Values& values, const char* theirs, const char* own) {
  const Value& given = values.at(theirs);
  if (!values.given(own)) return values.infer(own, given.value);
  if (values.at(own).value == given.value) return;
  refuse(given, "contradicts " + shown(values.at(own)) + ". Remove one of them.");
}

void read_order(Values& values, Schedule& schedule) {
  schedule.chunks = static_cast<int32_t>(values.integer(chunks_key));
  if (schedule.chunks > 1 && !values.given(schedule_key)) values.infer(schedule_key, "interleaved");
  const std::string name = values.choice(schedule_key);
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
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
  if (!interleaved) return;
  if (values.is_null(group_key)) values.infer(group_key, schedule.stages);
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
    if (!count.is_number_integer() || count < 1) refuse(value, "must hold numbers of blocks, each at least 1.");
    partition.counts.push_back(count.get<int64_t>());
  }
  if (static_cast<int64_t>(partition.counts.size()) != chunks) {
    refuse(value, "must hold a number for each of the " + std::to_string(chunks) +
                      " chunks (parallel.pipeline × parallel.virtual_pipeline), in the order of the model.");
  }
}

void read_gathered_for(const Values& values, ParallelConfig& parallel) {
  const std::string name = values.choice(gathered_key);
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
  for (const char* key : {chunks_key, schedule_key, group_key, partition_key, gathered_key}) {
    const Value& value = values.at(key);
    if (!values.given(key) || value.value == nlohmann::json::parse(value.key->fallback)) continue;
    values.warnings.push_back(without_effect(value, "with parallel.pipeline = 1 there is no pipeline"));
  }
}

}  // namespace

int build_stages(Values& values) {
  if (values.given("pipeline.stages") && values.at("pipeline.stages").value != "auto") {
    values.integer("pipeline.stages");
    take_over(values, "pipeline.stages", stages_key);
  }
  return static_cast<int>(values.integer(stages_key));
}

void build_pipeline(Values& values, std::optional<int64_t> microbatches, ParallelConfig& parallel) {
  Schedule& schedule = parallel.schedule;
  schedule.stages = parallel.pipeline;
  values.check([&] {
    if (values.choice("pipeline.partition") != "best") take_over(values, "pipeline.partition", partition_key);
  });
  if (schedule.stages == 1) return warn_without_pipeline(values);
  values.check([&] {
    read_order(values, schedule);
    if (!microbatches) return;
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
