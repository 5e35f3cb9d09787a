#include "runtime/ops/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// On a GPU the executor has filled the staging buffer.
void run_load_batch(const OpCall& call) {
  constexpr std::array roles{Role::tokens, Role::targets, Role::positions};  // in the order of staging
  const Access* staging = call.find(Role::staging);
  if (!staging) {
    data::SampleRows to{call.as<int32_t>(Role::tokens), call.as<int32_t>(Role::targets),
                        call.as<int32_t>(Role::positions)};
    const auto any = std::find_if(roles.begin(), roles.end(), [&](Role role) { return call.find(role) != nullptr; });
    const uint64_t rows = call.bytes(*call.find(*any)) / sizeof(int32_t);
    std::vector<int32_t> not_needed;  // of a batch whose other parts other stages of a pipeline read
    if (!to.tokens || !to.targets) not_needed.resize(2 * rows);
    if (!to.tokens) to.tokens = not_needed.data();
    if (!to.targets) to.targets = not_needed.data() + rows;
    call.rank.batch(call.op.microbatch.at(call.iteration), to);
    if (to.positions) check_positions(to.positions, static_cast<int64_t>(rows), call.rank.layout->sequence);
    return;
  }
  for (size_t place = 0; place < roles.size(); ++place) {
    const Access* to = call.find(roles[place]);
    if (!to) continue;
    const uint64_t bytes = call.bytes(*to);  // of each
    core::copy_bytes(call.address(*to), call.address(*staging) + place * bytes, bytes);
  }
}

OpCost batch_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op, Use::write), Resource::link_up, call.cluster);
}

}  // namespace

void check_batch(const models::Model& model, const data::SampleRows& batch, int64_t rows) {
  const auto check = [&](const int32_t* values, int32_t lowest, const char* what) {
    for (int64_t i = 0; i < rows; ++i) {
      if (values[i] >= lowest && values[i] < model.vocab) continue;
      throw core::DataError(
          fmt::format("A batch holds {} {} at row {}, outside the vocabulary {} to {}. The data was tokenized with "
                      "another vocabulary: rebuild it, or raise model.vocab.",
                      what, values[i], i, lowest, model.vocab - 1));
    }
  };
  check(batch.tokens, 0, "token");
  const bool orders = model.masking && model.masking->sentence_order;
  if (batch.targets) check(batch.targets, orders ? models::swapped : models::not_counted, "target");
  if (batch.positions) check_positions(batch.positions, rows, model.sequence);
}

void check_positions(const int32_t* positions, int64_t rows, int64_t T) {
  for (int64_t i = 0; i < rows; ++i) {
    if (positions[i] == 0 || (i % T > 0 && positions[i] == positions[i - 1] + 1)) continue;
    throw core::DataError(fmt::format(
        "A batch has position {} at place {} of its sample {}, where {} legal: positions count up from 0 "
        "in each document, and a sample begins with one. Whatever fills the batch counts otherwise.",
        positions[i], i % T, i / T, i % T > 0 ? fmt::format("0 and {} are", positions[i - 1] + 1) : "0 alone is"));
  }
}

std::vector<OpSpec> batch_ops() {
  return {{.kind = OpKind::load_batch,
           .name = "load_batch",
           .phases = {"step", "eval", "decode"},
           .operands = {{Role::tokens, Count::optional, may_write},
                        {Role::targets, Count::optional, may_write},
                        {Role::positions, Count::optional, may_write},
                        {Role::staging, Count::optional, may_write}},
           .run = run_load_batch,
           .cost = batch_cost,
           .of_microbatch = true,
           .site = Site::resident}};
}

}  // namespace zrt::runtime
