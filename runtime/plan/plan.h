// Makes what `zrt plan` knows of a run: everything up to its execution, for all ranks from one compilation for each
// stage, whose ranks run the same programs. Opens no data, makes no arena and no thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/passes/compile.h"
#include "runtime/plan/comm_bytes.h"
#include "runtime/plan/run_cost.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/stage_table.h"
#include "runtime/plan/suggest.h"

namespace zrt::runtime {

struct PhasePeak {
  std::string phase, op;
  uint64_t live_bytes = 0;  // of the device tier while `op` runs
};

// Ranks first … last, which are those of a stage; without a pipeline they are all.
struct StagePlan {
  int first = 0, last = 0;
  Compiled compiled;
  std::vector<PhasePeak> phases;
  CommBytes comm;                  // received by a rank in a step
  std::optional<Simulation> step;  // on the cluster
  // The share of the step in which a rank computes nothing.
  double idle_share() const { return 1 - step->busy_seconds.front() / step->seconds; }
};

struct Plan {
  int64_t parameters = 0, active_parameters = 0;  // the second: that a token is computed with, where there are experts
  std::vector<StagePlan> stages;                  // at least one
  std::optional<Cluster> cluster;
  Limits limits;
  std::string saves;  // checkpoints during the run: "background", "foreground" (FitRequest::holds_copies), or none: ""
  bool fits = true;
  std::vector<Suggestion> suggestions;                                     // when it does not fit
  const Layout& layout() const { return stages.front().compiled.layout; }  // for what all stages have in common
  int64_t tokens_per_step() const;
  double seconds_per_step() const { return stages.front().step->seconds; }
};

// Compiles and verifies `phases`, as a run does: without "save" where memory does not hold it. Throws core::Error for
// what a run would refuse too, save that memory does not suffice.
Plan make_plan(const Config& config, const models::Model& model, std::vector<std::string> phases,
               const std::optional<Cluster>& cluster);

std::string to_json(const Plan& plan, const Price& price = {});          // docs/plan.md has its keys
std::string plan_text(const Plan& plan, const StagesShown& shown = {});  // tables for people

}  // namespace zrt::runtime
