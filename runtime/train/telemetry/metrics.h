// Holds what a run measures, and writes the files it leaves: metrics.jsonl, memory.json, summary.json.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/session.h"
#include "runtime/train/telemetry/expert_loads.h"
#include "runtime/train/telemetry/process_memory.h"

namespace zrt::runtime {

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;
  bool skipped = false;         // loss or gradient were not finite, or no token counted, and no weight moved
  int64_t tokens = 0;           // of the global batch
  int64_t counted_tokens = -1;  // of these, the ones that enter the loss
  // A whole turn of the training loop: the step, and metrics, records and hooks of the one before; without checkpoints
  // and evaluations.
  double step_seconds = 0;
  double exposed_comm_seconds = 0, exposed_io_seconds = 0;
  models::RouterTally router;            // of models with experts; else no layers
  std::vector<LayerLoads> expert_loads;  // where they are asked for
  double router_balance() const { return router.balance / static_cast<double>(router.layers); }  // means of layers
  double router_z() const { return router.z / static_cast<double>(router.layers); }
  double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

// Reads the metrics of the step just taken from the control block of the first local rank.
StepMetrics read_metrics(Session& session, int64_t step, double seconds);

struct RankMemory {
  int rank = 0;
  size_t stage = 0;
  std::array<uint64_t, core::tier_count> measured_peak_bytes{};  // of the tier's arena; 0 where there is none
};

struct ProcessReport {
  std::vector<int> ranks;  // that live in it
  ProcessMemory memory;
  std::string gpu = "null";  // as memory.json shows it
};

struct MemoryReport {
  std::vector<MemoryPlan> plans;  // of all ranks of a stage, by stage
  std::vector<RankMemory> ranks;
  std::vector<ProcessReport> processes;
};

// Reports on all ranks and processes, in every process. Collective.
MemoryReport measure_memory(Session& session);

// Results of one dataset, or of all that `sets` lists: each token counts the same.
struct Evaluation {
  double loss = 0;  // nats per token
  uint64_t tokens = 0;
  std::optional<double> bits_per_byte;    // where the dataset says how many bytes its tokens stand for
  std::optional<double> unigram_entropy;  // of a dataset's text, bits per byte
  std::optional<int64_t> bytes;           // of text that the tokens stand for, at the dataset's mean
  std::string prefix, language;           // of a dataset; language may be ""
  std::vector<Evaluation> sets;
  bool cut_short = false;  // the run was asked to stop: the numbers mean nothing
  double perplexity() const;
  const std::string& label() const { return language.empty() ? prefix : language; }
};
std::string to_json(const Evaluation& evaluation);
std::string to_json_line(int64_t step, const Evaluation& evaluation);  // of evaluations.jsonl

// The duration of a delink, from the last step of shared layers until the first of delinked ones could be taken.
struct MeasuredDelink {
  std::chrono::steady_clock::time_point began;
  double seconds = 0;
  double save_seconds = 0;  // of these, the checkpoint was written and read back
  double load_seconds = 0;  // of these, it was opened and loaded
};

struct Summary {
  double final_loss = 0;
  std::string state_xxh3, kernel_table_xxh3;
  double tokens_per_second = 0, step_seconds = 0;  // medians
  double model_flops_per_second = 0;
  std::map<OpKind, CommVolume> comm;  // received by rank 0, all steps
  bool fast_sums = false;             // NCCL ordered the sums of some groups
  Moved moved;                        // by rank 0 between its tiers, all steps
  std::optional<Evaluation> validation;
  double verify_seconds = 0, packing_overhead = 0;  // of all stages, and of the one where it is largest
  int64_t steps = 0, skipped = 0;                   // of the run from its beginning; the first include the others
  int64_t saves = 0, failed_saves = 0;
  double save_stall_seconds = 0;         // training stood still for them
  std::optional<MeasuredDelink> delink;  // of a run that has delinked since it was started
  std::string exit_reason;
};

std::string to_json(const StepMetrics& metrics);
std::string to_json(const MemoryReport& report);
std::string to_json(const Summary& summary);

// Writes a whole file through a temporary name. Throws DataError.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace zrt::runtime
