// From a configuration to a layout, with everything checked that needs the model: budgets and the shape of units.
#pragma once
#include "models/model.h"
#include "runtime/compile.h"
#include "runtime/config/config.h"
#include "runtime/session.h"

namespace zrt::runtime {

// Throws ConfigError for sizes that are legal numbers but no run of thread ranks can have.
void check_sizes(const Config& config);

models::Model make_model(const ModelConfig& config);
Layout make_layout(const Config& config, const models::Model& model);
SessionOptions session_options(const Config& config);

// Compiles and checks memory.device_budget_bytes and the machine's memory. Over budget: MemoryError with the ledger and
// the nearest setting that fits (a higher stage, then smaller microbatches), or the statement that none does.
// `host_ranks` of the ranks share this machine's memory; 0 means all.
Compiled compile_within_budget(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                               int host_ranks = 0);

}  // namespace zrt::runtime
