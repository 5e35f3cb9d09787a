#include "runtime/ops/batch.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// On a GPU the executor has filled the staging buffer.
void run_load_batch(const OpCall& call) {
  const Access* staging = call.find(Role::staging);
  if (!staging) {
    auto *tokens = call.as<int32_t>(Role::tokens), *targets = call.as<int32_t>(Role::targets);
    std::vector<int32_t> not_needed;  // of a batch whose other half another stage of a pipeline reads
    if (!tokens || !targets) {
      not_needed.resize(call.bytes(*call.find(tokens ? Role::tokens : Role::targets)) / sizeof(int32_t));
      (tokens ? targets : tokens) = not_needed.data();
    }
    call.rank.batch(call.op.microbatch.at(call.iteration), tokens, targets);
    return;
  }
  for (const Role role : {Role::tokens, Role::targets}) {
    const Access* to = call.find(role);
    if (!to) continue;
    const uint64_t bytes = call.bytes(*to);  // of either
    core::copy_bytes(call.address(*to), call.address(*staging) + (role == Role::targets ? bytes : 0), bytes);
  }
}

OpCost batch_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op, Use::write), Resource::link_up, call.cluster);
}

}  // namespace

void check_batch(const models::Model& model, const int32_t* tokens, const int32_t* targets, int64_t rows) {
  const auto check = [&](const int32_t* values, int32_t lowest, const char* what) {
    for (int64_t i = 0; i < rows; ++i) {
      if (values[i] >= lowest && values[i] < model.vocab) continue;
      throw core::DataError(
          fmt::format("A batch holds {} {} at row {}, outside the vocabulary {} to {}. The data was tokenized with "
                      "another vocabulary: rebuild it, or raise model.vocab.",
                      what, values[i], i, lowest, model.vocab - 1));
    }
  };
  check(tokens, 0, "token");
  const bool orders = model.masking && model.masking->sentence_order;
  if (targets) check(targets, orders ? models::swapped : models::not_counted, "target");
}

std::vector<OpSpec> batch_ops() {
  return {{.kind = OpKind::load_batch,
           .name = "load_batch",
           .phases = {"step", "eval", "decode"},
           .operands = {{Role::tokens, Count::optional, may_write},
                        {Role::targets, Count::optional, may_write},
                        {Role::staging, Count::optional, may_write}},
           .run = run_load_batch,
           .cost = batch_cost,
           .of_microbatch = true,
           .site = Site::resident}};
}

}  // namespace zrt::runtime
