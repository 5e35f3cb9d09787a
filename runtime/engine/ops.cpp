#include "runtime/engine/ops.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/engine/control_ops.h"

namespace zrt::runtime {

const Access* OpCall::find(Role role, size_t nth) const {
  for (const Access& access : op.accesses) {
    if (access.role == role && nth-- == 0) return &access;
  }
  return nullptr;
}

std::byte* OpCall::address(const Access& access) const {
  const Buffer& buffer = set_.buffers[access.buffer];
  return arenas_[static_cast<size_t>(buffer.tier)]->data() + buffer.offset +
         access.slot.at(iteration) * buffer.stride();
}

std::byte* OpCall::at(Role role, size_t nth) const {
  const Access* access = find(role, nth);
  return access ? address(*access) : nullptr;
}

namespace {

// On a GPU the executor has filled the staging buffer.
void run_load_batch(const OpCall& call) {
  const Access* staging = call.find(Role::staging);
  if (!staging) {
    call.rank.batch(call.op.microbatch.at(call.iteration), call.as<int32_t>(Role::tokens),
                    call.as<int32_t>(Role::targets));
    return;
  }
  const std::byte* from = call.address(*staging);
  for (const Role role : {Role::tokens, Role::targets}) {
    const Access* to = call.find(role);
    if (!to) continue;
    core::copy_bytes(call.address(*to), from, call.bytes(*to));
    from += call.bytes(*to);
  }
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
  if (targets) check(targets, models::not_counted, "target");
}

void run_op(const OpCall& call) {
  switch (call.op.kind) {
    case OpKind::init:
    case OpKind::load:
      return run_init(call);
    case OpKind::begin:
      return begin_step(call.as<Control>(Role::control));
    case OpKind::load_batch:
      return run_load_batch(call);
    case OpKind::forward:
    case OpKind::recompute:
    case OpKind::backward:
    case OpKind::evaluate:
    case OpKind::decode:
      return run_block(call);
    case OpKind::gather:
    case OpKind::gather_grad:
    case OpKind::gather_state:
      return run_gather(call);
    case OpKind::reduce_grad:
      return run_reduce_grad(call);
    case OpKind::norm:
      return run_norm(call);
    case OpKind::share_control:
      return run_share_control(call);
    case OpKind::average:
      return run_average(call);
    case OpKind::decide:
      return run_decide(call);
    case OpKind::decide_ahead:
      return run_decide_ahead(call);
    case OpKind::sum:
      return run_sum(call);
    case OpKind::share_sums:
      return run_share_sums(call);
    case OpKind::fold:
      return run_fold(call);
    case OpKind::update:
      return run_update(call);
    case OpKind::export_state:
      return run_export(call);
    case OpKind::snapshot:
      return run_snapshot(call);
    case OpKind::fetch:
    case OpKind::evict:
      return run_transfer(call);
  }
}

}  // namespace zrt::runtime
