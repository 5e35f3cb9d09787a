// The decisions of a step from what all ranks told; for hosts and kernels alike.
#pragma once
#include <cmath>

#include "core/host_device.h"
#include "core/mesh.h"
#include "runtime/program/control.h"

namespace zrt::runtime {

struct DecideRules {
  core::Mesh mesh;
  int ranks = mesh.world();
  // The ranks that share the work of a block: the first of them counts its loss.
  core::Axes sharing = core::Axis::tensor;
  optimizer::LossScaleParams loss_scale{};
  double clip = 0;     // largest gradient norm; 0 for none
  double targets = 1;  // of all samples of a step
  // Updates have followed the decision ahead: there is no clip and no dynamic loss scale, and it is too late to skip.
  bool ahead = false;
  bool late = false;  // updates are left to what comes behind the step
};

// Backward divides by all targets that the samples of a step have, which never change, and updates multiply by this: so
// kernels take the same parameters in every step, and are replayed, however many targets count.
ZRT_HD inline double share_factor(const StepInputs& inputs, const DecideRules& rules) {
  return inputs.counted > 0 ? rules.targets / static_cast<double>(inputs.counted) : 1;
}

ZRT_HD inline void clear_sums(Control& control) {
  control.loss_sum = 0;
  control.loss_tokens = 0;
  control.norm = {};
  control.router = {};
}

ZRT_HD inline ControlShare share_of(const Control& control) {
  return {control.loss_sum, control.loss_tokens, control.norm, control.inputs.requests, control.router};
}

ZRT_HD inline void average_shares(const ControlShare* shares, const DecideRules& rules, Control& control) {
  double sum = 0;
  uint64_t tokens = 0;
  control.requests = 0;
  control.all_routers = {};
  for (int r = 0; r < rules.ranks; ++r) {
    control.requests |= shares[r].requests;
    if (rules.mesh.place(rules.sharing, r) != 0) continue;
    sum += shares[r].loss_sum;
    tokens += shares[r].loss_tokens;
    control.all_routers.add(shares[r].router);
  }
  control.mean_tokens = tokens;
  control.mean_loss = tokens == 0 ? 0 : sum / static_cast<double>(tokens);
}

// Writes the decision that updates follow; nothing else in `decided` has a meaning. With rules.late it is the last
// step's, or a skip if that was carried out already. Otherwise updates do not wait for the gradient's norm: it is the
// candidate, with the factor that decide_step takes where it does not clip.
ZRT_HD inline void decide_for_updates(Control& control, const DecideRules& rules, Control& decided) {
  for (uint32_t m = 0; m < optimizer::most_members; ++m) {
    if (rules.late) {
      decided.decision[m] = control.decision[m];
      decided.decision[m].skip = control.decision[m].skip || !control.updates_wait;
    } else {
      decided.decision[m] = control.next.decision[m];
      decided.decision[m].grad_scale =
          static_cast<float>(share_factor(control.inputs, rules) / control.persistent.loss_scale.scale);
      decided.decision[m].skip = control.inputs.counted == 0;
    }
  }
  if (rules.late) control.updates_wait = 0;
}

// Takes the candidate unless the loss or the gradient is not finite, or no target counts. The clip factor follows
// DeepSpeed: c = (norm + 1e-6) / clip, applied when it is above 1.
ZRT_HD inline void decide_step(const ControlShare* shares, const DecideRules& rules, Control& control) {
  average_shares(shares, rules, control);
  optimizer::ExactSum sum;
  for (int r = 0; r < rules.ranks; ++r) sum.add(shares[r].norm);
  const double squares = sum.value(), scale = control.persistent.loss_scale.scale;
  double factor = share_factor(control.inputs, rules) / scale;
  control.loss_scale = scale;
  control.grad_norm = std::sqrt(squares) * factor;
  constexpr double most = std::numeric_limits<double>::max();
  const bool finite = std::fabs(control.grad_norm) <= most && std::fabs(control.mean_loss) <= most;
  const bool counts = control.inputs.counted != 0, skip = !finite || !counts;
  if (counts && !update_loss_scale(rules.loss_scale, control.persistent.loss_scale, skip)) {
    control.fault = Fault::loss_scale_at_minimum;
  }
  for (optimizer::Decision& decision : control.decision) decision.skip = skip;
  control.updates_wait = rules.late;
  if (!finite && rules.ahead && counts) control.fault = Fault::updated_with_bad_gradient;
  if (skip) return;
  if (rules.clip > 0) {
    const double over = (control.grad_norm + 1e-6) / rules.clip;
    if (over > 1) factor /= over;
  }
  for (uint32_t m = 0; m < optimizer::most_members; ++m) {
    control.persistent.progress[m] = control.next.progress[m];
    control.decision[m] = control.next.decision[m];
    control.decision[m].grad_scale = static_cast<float>(factor);
    control.decision[m].grad_squares = squares * factor * factor;
  }
}

}  // namespace zrt::runtime
