#include "runtime/ops/control_ops.h"

#include <fmt/format.h>

#include "core/device.h"
#include "core/error.h"

namespace zrt::runtime {
namespace {

bool on_gpu() {
  return core::place().device == core::DeviceKind::cuda;
}

}  // namespace

void prepare_step(const Rank& rank, Control& control) {
  const optimizer::Optimizer& optimizer = *rank.layout->optimizer;
  control.next = {};
  for (uint32_t m = 0; m < optimizer.members(); ++m) {
    control.next.progress[m] = control.persistent.progress[m];
    control.next.decision[m].seed = control.inputs.seed;
    optimizer.member(m).decide(control.inputs.rates, control.next.progress[m], control.next.decision[m]);
  }
}

void throw_fault(const Rank& rank, const Control& control) {
  if (control.fault == Fault::loss_scale_at_minimum) optimizer::throw_at_minimum(rank.loss_scale);
  if (control.fault != Fault::updated_with_bad_gradient) return;
  throw core::NumericError(fmt::format(
      "the loss ({}) or the gradient (its norm is {}) is not finite, and with memory.update_when = \"as_ready\" "
      "weights "
      "had been updated before that was known: they are damaged, and nothing of them is saved. "
      "memory.update_when = \"after_norm\" and \"next_forward\" skip such steps",
      control.mean_loss, control.grad_norm));
}

DecideRules decide_rules(const Rank& rank) {
  const Layout& layout = *rank.layout;
  DecideRules rules{layout.mesh};
  rules.loss_scale = rank.loss_scale, rules.clip = rank.clip, rules.ahead = layout.early_updates(),
  rules.late = layout.late_updates();
  rules.targets = static_cast<double>(layout.targets());
  return rules;
}

void begin_step(Control* control) {
  if (on_gpu()) return cuda::begin_step(control);
  clear_sums(*control);
}

void count_loss(Control* control, const int32_t* targets, int64_t rows) {
  if (on_gpu()) return cuda::count_loss(control, targets, rows);
  for (int64_t i = 0; i < rows; ++i) control->loss_tokens += targets[i] >= 0;
  control->loss_sum += control->call_loss;
}

void make_share(const Control* control, ControlShare* share) {
  if (on_gpu()) return cuda::make_share(control, share);
  *share = share_of(*control);
}

void average(const ControlShare* shares, const DecideRules& rules, Control* control) {
  if (on_gpu()) return cuda::average(shares, rules, control);
  average_shares(shares, rules, *control);
}

void decide(const ControlShare* shares, const DecideRules& rules, Control* control) {
  if (on_gpu()) return cuda::decide(shares, rules, control);
  decide_step(shares, rules, *control);
}

void decide_ahead(Control* control, const DecideRules& rules, Control* decided) {
  if (on_gpu()) return cuda::decide_ahead(control, rules, decided);
  decide_for_updates(*control, rules, *decided);
}

}  // namespace zrt::runtime
