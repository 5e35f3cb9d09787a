// Runs programs over a cost model of a cluster instead of a machine: seconds per op, lanes over time, and what of the
// communication no computation hides.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "runtime/cost/cluster.h"
#include "runtime/cost/cost.h"
#include "runtime/passes/compile.h"

namespace zrt::runtime {

struct SimulatedOp {
  OpId op;
  uint32_t iteration;
  double start_seconds, end_seconds;  // from the start of the program
};

struct Simulation {
  double seconds = 0;
  double exposed_comm_seconds = 0;    // computation stands still for comm lanes: as the executor counts it
  double exposed_io_seconds = 0;      // the same for to_device, to_host and io lanes
  std::vector<double> busy_seconds;   // by lane of the set
  std::vector<SimulatedOp> timeline;  // in program order; when asked for
};

// A caller asks for so much of a step: seconds alone may show sooner.
enum class Wanted { seconds, all, timeline };

// Unless a timeline is kept, turns of a program that take as long as those before are not run but counted, so that a
// step of many microbatches takes no longer to look at than one of few.

// One run of `program` on a rank. All data-parallel ranks run the same program, so a collective starts when this rank
// reaches it.
Simulation simulate(const ProgramSet& set, const Program& program, const Layout& layout, const Cluster& cluster,
                    Wanted wanted = Wanted::all);

// A step of all stages of a run, a simulation for each.
std::vector<Simulation> simulate_step(std::span<const Compiled> stages, const Cluster& cluster,
                                      Wanted wanted = Wanted::all);

// The ranks of one stage of a pipeline run this, on a clock of their own.
struct SimulatedStage {
  const ProgramSet* set;
  const Program* program;
  const Layout* layout;
};
using CostOf = std::function<OpCost(const SimulatedStage& stage, const Op& op)>;

// The same of all stages at once, a simulation for each: what they exchange starts when all who take part have come to
// it. `cost` stands in for op_cost.
std::vector<Simulation> simulate(std::span<const SimulatedStage> stages, const Cluster& cluster,
                                 Wanted wanted = Wanted::all, const CostOf& cost = {});

}  // namespace zrt::runtime
