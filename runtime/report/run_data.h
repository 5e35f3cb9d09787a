// Reads what the files of a run say, as far as that can be read: a report is asked for most often when something went
// wrong.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zrt::runtime::report {

// One line of metrics.jsonl; NaN where the line has no number.
struct StepRow {
  int64_t step = 0;
  double loss = NAN, grad_norm = NAN, lr = NAN, loss_scale = NAN, tokens = NAN;
  bool skipped = false;
  double step_seconds = NAN, tokens_per_second = NAN, exposed_comm_seconds = NAN, exposed_io_seconds = NAN;
  double router_balance = NAN, dropped_choices = NAN, expert_peak = NAN;  // of models with experts
};

struct EvaluationRow {
  int64_t step = 0;
  double loss = NAN, bits_per_byte = NAN, tokens = NAN;
};

// One line of expert_loads.jsonl.
struct LoadRow {
  int64_t step = 0;
  std::vector<int64_t> layers;
  std::vector<std::vector<double>> picked;  // by layer and expert
  std::vector<double> dropped;              // by layer
};

struct RunData {
  std::filesystem::path folder;
  nlohmann::json config, memory, summary, failure;  // null where there is none, or none that can be read
  std::vector<StepRow> steps;                       // ascending
  std::vector<EvaluationRow> evaluations;           // ascending
  std::vector<LoadRow> loads;                       // ascending; of models with experts
  nlohmann::json events;                            // of a supervisor; a list
  double heartbeat_age_seconds = NAN;               // since the run last showed that it lives
  std::vector<std::string> notes;                   // what is missing, damaged or strange, a sentence each

  // A key's value in config.resolved.json; null when there is none.
  nlohmann::json key(const std::string& section, const std::string& name) const;
};

// Throws DataError when `folder` is no folder of a run or its metrics.jsonl cannot be opened.
RunData read_run(const std::filesystem::path& folder);

// A number among others: NaN unless `object` has it.
double number(const nlohmann::json& object, const char* name);

}  // namespace zrt::runtime::report
