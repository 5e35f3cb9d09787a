#include <cmath>
#include <vector>

#include "runtime/ops.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

std::byte* shard_of(std::byte* full, const optimizer::Unit& unit, int rank, size_t element) {
  return full + static_cast<size_t>(rank * unit.shard) * element;
}

}  // namespace

// Gathers shards into whole units. With one buffer per unit (updated weights, whole gradients) the shard lies in it.
void run_gather(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const bool state = call.op.kind == OpKind::gather_state && layout.has_master();
  const core::DType type = state                                 ? core::DType::f32
                           : call.op.kind == OpKind::gather_grad ? layout.grad
                                                                 : layout.compute;
  std::vector<comm::GatherRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte* full = call.at(Role::full_state, i);
    std::byte* part = call.at(Role::weight, i);
    if (!part) part = shard_of(full, unit, call.rank.number, core::dtype_size(type));
    ranges.push_back({part, full, unit.shard});
  }
  call.rank.dp->all_gather(ranges, type, call.op.name);
}

void run_reduce_grad(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const bool in_place = layout.reduces_in_place();
  const core::DType to = in_place ? layout.local_grad : layout.grad;
  std::vector<comm::ReduceRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte* local = call.at(Role::local_grad, i);
    std::byte* target = in_place ? local : call.at(Role::grad, i);
    if (layout.zero.grads == Extent::full) target = shard_of(target, unit, call.rank.number, core::dtype_size(to));
    ranges.push_back({local, target, unit.shard, call.op.accumulate[i] != 0});
  }
  call.rank.dp->reduce_scatter(ranges, layout.local_grad, to, call.op.name);
}

// Each rank adds up its own shard only, whatever it holds: the sum is exact, so the split does not show.
void run_norm(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  std::byte* grad = call.at(Role::grad);
  if (layout.zero.grads == Extent::full) {
    grad = shard_of(grad, unit, call.rank.number, core::dtype_size(layout.grad));
  }
  optimizer::add_squares(call.as<Control>(Role::control)->norm, unit.shard, grad, layout.grad);
}

void run_share_control(const OpCall& call) {
  const auto* control = call.as<Control>(Role::control);
  auto* shares = call.as<ControlShare>(Role::shares);
  auto& own = shares[call.rank.number];
  own = {control->loss_sum, control->loss_tokens, control->norm, control->inputs.requests};
  const comm::GatherRange range{&own, shares, sizeof(ControlShare)};
  call.rank.dp->all_gather({&range, 1}, core::DType::u8, call.op.name);
}

void run_average(const OpCall& call) {
  const auto* shares = call.as<ControlShare>(Role::shares);
  auto* control = call.as<Control>(Role::control);
  double sum = 0;
  uint64_t tokens = 0;
  control->requests = 0;
  for (int r = 0; r < call.rank.layout->dp; ++r) {
    control->requests |= shares[r].requests;
    sum += shares[r].loss_sum;
    tokens += shares[r].loss_tokens;
  }
  control->mean_tokens = tokens;
  control->mean_loss = tokens == 0 ? 0 : sum / static_cast<double>(tokens);
}

// The clip factor follows DeepSpeed: c = (norm + 1e-6) / clip, applied when it is above 1.
void run_decide(const OpCall& call) {
  run_average(call);
  const auto* shares = call.as<ControlShare>(Role::shares);
  auto* control = call.as<Control>(Role::control);
  optimizer::ExactSum squares;
  for (int r = 0; r < call.rank.layout->dp; ++r) squares.add(shares[r].norm);
  const double scale = control->persistent.loss_scale.scale;
  control->loss_scale = scale;
  control->grad_norm = std::sqrt(squares.value()) / scale;
  control->skip = std::isfinite(control->grad_norm) ? 0 : 1;
  optimizer::update_loss_scale(call.rank.loss_scale, control->persistent.loss_scale, control->skip != 0);
  if (control->skip) return;
  double factor = 1 / scale;
  if (call.rank.clip > 0) {
    const double over = (control->grad_norm + 1e-6) / call.rank.clip;
    if (over > 1) factor /= over;
  }
  control->decision = {};
  control->decision.grad_scale = static_cast<float>(factor);
  control->decision.grad_squares = squares.value() * factor * factor;
  call.rank.optimizer->decide(control->inputs.rates, control->persistent.progress, control->decision);
}

}  // namespace zrt::runtime
