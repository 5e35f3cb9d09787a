// What `zrt plan` knows of a run: everything up to its execution, for all ranks from one compilation for each group of
// ranks that run the same programs. Opens no data, makes no arena and no thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/passes/compile.h"
#include "runtime/plan/comm_bytes.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/suggest.h"

namespace zrt::runtime {

struct PhasePeak {
  std::string phase, op;
  uint64_t live_bytes = 0;  // of the device tier while `op` runs
};

// Ranks first … last, whose programs are the same.
struct RankGroup {
  int first = 0, last = 0;
  Compiled compiled;
  std::vector<PhasePeak> phases;
  CommBytes comm;                  // of a step
  std::optional<Simulation> step;  // on the cluster
};

struct Plan {
  const Layout* layout = nullptr;
  std::vector<RankGroup> groups;  // of all ranks, ascending
  std::optional<Cluster> cluster;
  Limits limits;
  std::string saves;  // checkpoints during the run: "background", "foreground" (FitRequest::holds_copies), or none: ""
  bool fits = true;
  std::vector<Suggestion> suggestions;  // when it does not fit
  int64_t tokens_per_step() const;
};

// Compiles and verifies `phases`, as a run does: without "save" where memory does not hold it. `layout` must outlive
// the plan. Throws core::Error for what a run would refuse too, save that memory does not suffice.
Plan make_plan(const Config& config, Layout& layout, std::vector<std::string> phases,
               const std::optional<Cluster>& cluster);

std::string to_json(const Plan& plan);    // docs/plan.md has its keys
std::string plan_text(const Plan& plan);  // tables for people

}  // namespace zrt::runtime
