// The configuration of a run: plain structs, checked once when they are loaded, and not changed then: who wants another
// one makes it from what this one was made of (tests/core/layering_test.cpp looks for assignments).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/mesh.h"
#include "models/spec.h"
#include "optimizer/groups.h"
#include "optimizer/loss_scale.h"
#include "optimizer/schedule.h"
#include "runtime/config/batch.h"
#include "runtime/config/memory.h"
#include "runtime/config/pipeline.h"
#include "runtime/config/pseudo_to_real.h"
#include "runtime/config/setting.h"
#include "runtime/data/document_use.h"

namespace zrt::runtime {

using LearningRate = optimizer::Schedule;

struct ModelConfig : models::ModelSizes {
  std::string type, preset;  // preset: "" when the sizes were given
  std::string from;          // the folder that said them; "": none
  models::MakeModel make;
};

struct DataSource {
  double weight = 1;
  std::string prefix, language;  // what data::open_documents() takes; language may be ""
  std::string split = {};        // data.split: `part` of these parts of its documents; "" for all
  size_t part = 0;               // 0: training, 1: validation
};
struct DataConfig {
  std::vector<DataSource> train;                            // empty: not given
  std::vector<DataSource> validation;                       // evaluated one by one, without weights; empty: not given
  data::DocumentUse documents = data::DocumentUse::joined;  // of all that a run reads
};

struct OptimizerConfig {
  double lr = 1e-3;
  std::vector<optimizer::ParamGroup> groups;                                    // with a decay or rate of their own
  optimizer::OptimizerPtr algorithm = make_optimizer(optimizer::AdamParams{});  // with its groups
  double gradient_clipping = 1;                                                 // whole-model L2 norm; 0: off
};

struct ZeroConfig {
  int stage = 0;
  // In elements. A unit larger than its bucket travels alone, so 0 means one collective per unit.
  int64_t reduce_bucket_size = 500000000, allgather_bucket_size = 500000000;
  // Limits of stage 3, in elements.
  int64_t max_reuse_distance = 1000000000;
  std::optional<int64_t> prefetch_bucket_size;  // gathered ahead of use; none: the next block
  int64_t max_live_parameters = 1000000000;     // gathered at a time; a block that is larger is gathered nevertheless
  int64_t param_persistence_threshold = 0, model_persistence_threshold = INT64_MAX;
  int hpz_partition_size = 1;  // ranks of a group that keeps what a forward gathered until the backward; 1: none
  int mics_shard_size = 0;     // ranks that share one set of states; 0: all
  bool overlap_comm = false;
  bool open_overlap = false;  // nobody says: the plan decides (Layout::open_overlap)
};

struct PrecisionConfig {
  core::DType compute = core::DType::f32;           // weights, activations
  bool fp8 = false;                                 // products of linear layers round their operands to e4m3
  core::DType local_grad = core::DType::f32;        // of a rank, as it enters the reduction
  core::DType accumulated_grad = core::DType::f32;  // after the reduction, as the optimizer reads it
  optimizer::LossScaleParams loss_scale;
};

struct ParallelConfig {
  Schedule schedule;  // of the pipeline
  Partition partition;
  std::optional<GatheredFor> gathered_for;  // none: what the budget of the device allows
  std::string cluster;         // file or name of the cluster for which the lead of gathers is chosen; "": none
  int hierarchical_ranks = 1;  // consecutive ranks inside which collectives run first; 1: collectives have one level
  bool fast_sums = false;      // NCCL orders and rounds the sums of groups that it connects
  int64_t reduce_every = 1;    // microbatches summed on a rank before a reduction; divides the accumulation steps
};

// A folder of scalars over samples: job_name below output_path.
struct MonitorConfig {
  bool enabled = false;
  std::string output_path, job_name;
};

struct RunConfig {
  int64_t steps = 1000, seed = 1;
  std::string length;         // how steps follow from run.epochs, run.tokens or run.samples; "": they were given
  int64_t samples = 0;        // that these say; 0: steps were given
  std::string out, name;      // out "": the caller chooses runs/<name>-<time>; name: by default of the file
  int64_t log_interval = 10;  // steps between log lines; 0: none
  bool log_samples = false;   // which samples each rank reads in each step
  int64_t eval_interval = 0, eval_batches = 8;  // steps between evaluations, 0: none; microbatches of one
  bool save_weights = true;                     // a checkpoint after the last step
  bool trace = false;
  std::optional<std::pair<int64_t, int64_t>> trace_steps;  // first and last; none: the first few
  int64_t checkpoint_interval = 0;                         // steps between checkpoints; 0: none but the last
  int64_t keep_last = 2, keep_every = 0;  // newest checkpoints kept; and those of every so many steps, 0: none
  std::string resume;                     // "": start from scratch; "auto"; or the folder of a run, checkpoint or model
  bool load_module_only = false;          // resume takes weights alone: step 0, fresh optimizer
  int64_t skip_limit = 10;                // skipped steps in a row that end the run; 0: none do
  int64_t timeout_seconds = 120;
  int threads_per_rank = 1;
  core::DeviceKind device = core::DeviceKind::cpu;
  bool share_gpu = false;    // ranks take turns on GPUs where these are fewer
  std::string kernel_table;  // file of `zrt bench tune`; "": products run as the library suggests
  int64_t stress_seed = 0;   // not 0: ops start late at random, for tests of what waits guarantee
};

// One line of config.resolved.json.
struct ResolvedKey {
  std::string path;   // "zero_optimization.stage"
  std::string value;  // JSON
  std::string from;   // "file", "command line", "default" or "inferred"
};

struct Config {
  std::string file;
  int ranks = 1;
  // So many ranks, one after another, read the memory of each other's GPUs, and groups that reach further take NCCL; 0
  // means all ranks. It is no key: the launcher or the cluster of a plan says it.
  int ranks_in_reach = 0;
  core::Mesh mesh;
  BatchConfig batch;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  LearningRate schedule;
  ZeroConfig zero;
  ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  MemoryConfig memory;
  MonitorConfig tensorboard, csv_monitor;
  std::optional<PseudoToReal> pseudo_to_real;  // nothing: no layers share parameters
  RunConfig run;
  std::vector<std::string> warnings, notes;  // for the caller to log
  std::vector<ResolvedKey> keys;
};

// Reads a DeepSpeed file (see json_reader.h for the format) with the sections model, data, parallel, memory, run and
// fp8 added, and applies the settings in order. Throws one ConfigError for everything that is wrong with keys, a line
// for each; UsageError for a setting that is not of the form "a.b.c=value".
Config load_config(const std::filesystem::path& file, const Settings& sets, int ranks);
// The same for text; `name` stands for the file in messages.
Config parse_config(const std::string& text, const std::string& name, const Settings& sets, int ranks);

// The same configuration with overrides, on another number of ranks, and as if it had never named the keys and sections
// of `without`: what was inferred is inferred anew. Throws like parse_config.
Config reconfigured(const Config& config, const Settings& sets, int ranks,
                    const std::vector<std::string>& without = {});

// The same configuration with all ranks data-parallel: work on weights alone needs no mesh to fit what it keeps.
Config data_parallel(const Config& config, int ranks);
// The same configuration on one rank that takes samples one by one and keeps weights alone. It leaves out where the run
// kept its states and what it computed again.
Config weights_alone(const Config& config);

// A run of another length, as an inferred run.steps, from which schedules that leave theirs out follow.
Config with_steps(const Config& config, int64_t steps);
// The same with ranks of another reach.
Config in_reach(Config config, int ranks);
// The same with a folder that the caller chose, as an inferred run.out.
Config into_folder(Config config, const std::string& folder);

// The text of config.resolved.json: {"section": {"key": {"value": …, "from": "…"}}}, for every key of every section
// that holds an implemented key or was given.
std::string resolved_json(const Config& config);

// Re-creates the configuration of a run, on its number of ranks, from its config.resolved.json.
Config load_resolved(const std::filesystem::path& file, const Settings& sets = {});

}  // namespace zrt::runtime
