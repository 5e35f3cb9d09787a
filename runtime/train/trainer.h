// The main job: a training run from a configuration to the files it leaves.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/transport.h"
#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/data/sample_source.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/telemetry/metrics.h"

namespace zrt::runtime {

// The hooks of a caller. All but `warn` are called on the thread that called train(). `warn` may come from any thread
// of the run, one call at a time, while that thread waits for a phase or reports something itself: it must not touch
// what the other hooks use without a lock.
struct TrainHooks {
  std::function<void(const std::vector<std::string>& lines)> gpus;  // of all ranks, a line each
  // Hears first of all how many steps the run has, where a checkpoint makes them others than the configuration says.
  std::function<void(int64_t steps)> steps;
  std::function<void(std::span<const Compiled> stages)> planned;
  std::function<void(const StepMetrics& metrics)> step;
  std::function<void(int64_t step, const Evaluation& evaluation)> evaluated;
  // Called before the run loads what a folder holds; `host_bytes`: see load_host_bytes.
  std::function<void(int64_t step, const std::string& folder, uint64_t host_bytes)> resumed;
  std::function<void(const SaveOutcome& outcome)> saved;
  // Called after the step, before the life of layers of their own is planned: `groups` says how many shared their
  // parameters, by group.
  std::function<void(int64_t step, const std::vector<int64_t>& groups)> delinked;
  std::function<void(const std::string& text)> tell;  // hears facts on what the run reads
  std::function<void(const std::string& text)> warn;
  // Asked before each step; returns bits of Request. All ranks do after that step what is asked.
  std::function<uint32_t()> requests;
  bool launched = false;  // by the supervisor that keeps the folder for its runs (core::LaunchLock)
  // Says at any time that the run is asked to stop: an evaluation ends early then.
  std::function<bool()> stopping;
  StuckHook stuck;  // see runtime/engine/rank_threads.h
};

struct TrainResult {
  Summary summary;
  MemoryReport memory;
  StepMetrics last;
  std::string folder;  // of the run, whose name may have changed meanwhile
};

// Trains and writes config.resolved.json, metrics.jsonl, evaluations.jsonl, expert_loads.jsonl, memory.json,
// summary.json, with run.trace trace.json, and checkpoints into config.run.out, and scalars to the monitors of the
// configuration; goes on from a checkpoint as run.resume says. A save that fails is reported and training goes on;
// one that fails at the end is an error, after all else is written. Every process of a run calls it with its
// transport; the one with rank 0 writes the files, and only there are metrics and the summary complete. Throws
// core::Error.
TrainResult train(const Config& config, const TrainHooks& hooks, comm::Transport& transport);
// The same for a model of the caller's own blocks. Of config.model only `sequence` and `vocab` count, for the data.
TrainResult train(const Config& config, const models::Model& model, const TrainHooks& hooks,
                  comm::Transport& transport);

// A held-out dataset.
struct EvalSet {
  std::shared_ptr<const data::SampleSource> source;
  std::optional<data::DatasetMeta> meta;
  std::string prefix, language;
};
using EvalData = std::vector<EvalSet>;
// Throws ConfigError when a dataset says another language than `sources`. What is masked is the same in every
// evaluation.
EvalData open_eval_data(const std::vector<DataSource>& sources, data::DocumentUse documents,
                        const models::Model& model);

// Mean losses over the datasets, one after the other as if each were alone: every sample once whatever the number of
// ranks; of each the first `limit` microbatches of a rank when it is positive. Sets `filler`, which the session must
// read batches through, and empties it again. `stop`, which must say the same in every process, is asked before each
// batch; where it says true the evaluation is cut short, and what it holds is of no use.
using BatchFiller = std::function<void(int rank, uint32_t microbatch, const data::SampleRows& to)>;
Evaluation evaluate(Session& session, const EvalData& data, BatchFiller& filler, int64_t limit = 0,
                    const std::function<bool()>& stop = {});

}  // namespace zrt::runtime
