// Turns a configuration into layouts and programs, with everything checked that needs the model: budgets and the shape
// of units.
#pragma once
#include <optional>

#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/cost/cluster.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/gpus.h"

namespace zrt::runtime {

// Throws ConfigError for sizes that are legal numbers but no program can have.
void check_sizes(const Config& config);
// The same for what can be planned but not run.
void check_run(const Config& config);

// Products of a GPU take the algorithms that run.kernel_table lists. Throws ConfigError when the file is none, or was
// made for another chip or library.
void use_kernel_table(const Config& config);

// A warning where a group of tensor-parallel ranks spans hosts of so many ranks each; "": none does.
std::string tensor_across_hosts(const Config& config, int ranks_per_host,
                                Distribution distribution = Distribution::block);

// Returns the layout of each stage of the pipeline, in order; without a pipeline there is one. Throws ConfigError.
std::vector<Layout> make_layouts(const Config& config, const models::Model& model);
// Lists what a training run compiles: its first phase, "init" or "load", and those that the configuration asks for.
std::vector<std::string> training_phases(const Config& config, const std::string& first);

// Fits and compiles all stages (fit.h) and checks the memory budgets and the machine's memory. Throws MemoryError, with
// the ledger and the changes that would make it fit (suggest_fits), where memory is too little. Leaves "save" out where
// only the copies are too much.
std::vector<Compiled> compile_within_budget(const Config& config, const models::Model& model,
                                            std::vector<std::string> phases, const RunPlace& place = {});

}  // namespace zrt::runtime
