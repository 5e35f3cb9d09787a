// The main job: a training run from a configuration to the files it leaves.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "models/data/dataset_meta.h"
#include "models/data/sample_source.h"
#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/metrics.h"

namespace zrt::runtime {

// What a caller may watch. All are called on the thread that called train().
struct TrainHooks {
  std::function<void(const Layout& layout, const Compiled& compiled)> planned;
  std::function<void(const StepMetrics& metrics)> step;
  std::function<void(int64_t step, const Evaluation& evaluation)> evaluated;
  std::function<bool()> stop;  // asked after each step
};

struct TrainResult {
  Summary summary;
  MemoryReport memory;
  StepMetrics last;
};

// Trains and writes config.resolved.json, metrics.jsonl, memory.json, summary.json, with run.trace trace.json, and
// with run.save_weights checkpoints/step_<N>/model.safetensors into config.run.out. Throws core::Error.
TrainResult train(const Config& config, const TrainHooks& hooks);
// The same for a model of the caller's own blocks. Of config.model only `sequence` and `vocab` count, for the data.
TrainResult train(const Config& config, const models::Model& model, const TrainHooks& hooks);

// Mean loss over a dataset, every sample once whatever the number of ranks; over the first `limit` microbatches of each
// rank when it is positive. `route` is called with the batch filler to use and again with an empty one.
struct EvalData {
  std::shared_ptr<const models::data::SampleSource> source;
  std::optional<models::data::DatasetMeta> meta;
};
EvalData open_eval_data(const std::string& prefix, const ModelConfig& model);
using BatchFiller = std::function<void(int rank, uint32_t microbatch, int32_t* tokens, int32_t* targets)>;
Evaluation evaluate(Session& session, const EvalData& data, BatchFiller& filler, int64_t limit = 0);

// The weights a run left: the highest step under RUN/checkpoints. Throws DataError when there are none.
std::filesystem::path find_weights(const std::filesystem::path& run);

}  // namespace zrt::runtime
