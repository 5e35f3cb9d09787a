// Turns the values of all keys into the structs of a Config: ranges, inference and relations between keys.
#pragma once
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {

// Fills every struct of the Config, on `ranks` ranks; 0 takes the number the batch triple implies. `name` is the
// fallback of run.name. Records in `values` what it infers and every problem it meets; where there is one, what it
// returns is of no use.
Config build_config(Values& values, int ranks, const std::string& name);

// Says whether a key keeps what was inferred for it once, in configurations made of that one: run.steps, because
// another batch or other data make no other run; the positions that rotary ones are stretched from, because shorter
// samples make no other model.
bool settled(std::string_view path);

// `accumulation`: microbatches of a step, where the batch is known; `every`: those of them that are summed before a
// reduction. Says whether the type of weights is known.
bool build_precision(Values& values, std::optional<int64_t> accumulation, int64_t every, PrecisionConfig& precision);

// Reads a key of text or null; null becomes "".
inline std::string optional_text(const Values& values, std::string_view path) {
  return values.is_null(path) ? std::string() : values.text(path);
}

// The parts, in the order they depend on each other. They throw ConfigError for what ends their work, which the caller
// gathers.
ZeroConfig build_zero(Values& values);
void check_prescale(Values& values, const ZeroConfig& zero);  // prescale_gradients
// Reads pseudo_to_real for a model of so many layers. Returns nothing where no layers share parameters.
std::optional<PseudoToReal> build_pseudo_to_real(Values& values, int64_t layers);
RunConfig build_run(Values& values, const std::string& name);  // `name`: the fallback of run.name
// Settles run.steps where another key says the length: the batch, model and data of `config` are known.
void build_length(Values& values, const Config& config, RunConfig& run);
models::Adapters build_adapters(const Values& values);
ModelConfig build_model(Values& values, const models::Degrees& degrees);
// Fills the model's keys by what the folder of model.from says, or, where no key says which model is meant, that of
// run.resume. What a file of a run has recorded of a folder stays.
void use_model_folder(Values& values);
// sparse_attention, for a type of model whose attention is causal or not.
models::SparseLayers build_attention(Values& values, bool causal, int64_t sequence);
void build_data(const Values& values, DataConfig& data);
// data.split: each dataset of data.train becomes one of data.validation, too.
void build_split(const Values& values, DataConfig& data);
OptimizerConfig build_optimizer(Values& values);
// `run_rate`: what rates of groups are multiples of; 0: the optimizer makes its own.
std::vector<optimizer::ParamGroup> build_parameter_groups(Values& values, double run_rate);
const MicrobatchOrder* build_microbatch_order(const Values& values);
models::Degrees build_degrees(Values& values);
int build_stages(Values& values);  // of the pipeline
// Reads how the stages work. `microbatches`: those of a step, where the batch is known.
void build_pipeline(Values& values, std::optional<int64_t> microbatches, int stages, ParallelConfig& parallel);
void build_memory(Values& values, const ZeroConfig& zero, const RunConfig& run, MemoryConfig& memory);
void build_sliding(Values& values, MemoryConfig& memory);      // memory.device_layers and memory.moved_layers
void build_forms(const Values& values, Config& config);        // memory.moments and memory.master: of the states
void build_update_when(const Values& values, Config& config);  // memory.update_when, against what needs the norm
// Reads scheduler.params of a type that transformers has; false for other types.
bool build_named_schedule(Values& values, int64_t steps, LearningRate& schedule);
LearningRate build_schedule(Values& values, const OptimizerConfig& optimizer, int64_t steps);

}  // namespace zrt::runtime::configuration
