#include <fmt/format.h>

#include "runtime/ops/spec.h"
#include "runtime/plan/group_summary.h"
#include "runtime/plan/placement_text.h"
#include "runtime/plan/plan.h"

namespace zrt::runtime {
namespace {

std::string both(uint64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, core::format_bytes(bytes));
}

std::string tier_text(const TierPlan& tier, std::string_view name) {
  std::string text = fmt::format("  {}: peak {} in phase '{}' at '{}'\n   ", name, both(tier.peak_bytes),
                                 tier.peak_phase, tier.peak_op);
  for (size_t c = 0; c < core::category_count; ++c) {
    if (tier.categories[c] > 0) {
      text += fmt::format(" {} {}", core::category_names[c], core::format_bytes(tier.categories[c]));
    }
  }
  return text + fmt::format("; packing overhead {:.2f} %\n", 100 * tier.packing_overhead());
}

std::string group_text(const RankGroup& group) {
  std::string text = group.first == group.last ? fmt::format("rank {}\n", group.first)
                                               : fmt::format("ranks {}–{}, all alike\n", group.first, group.last);
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = group.compiled.plan.tiers[t];
    if (tier.peak_bytes > 0) text += tier_text(tier, core::tier_names[t]);
  }
  text += "  device by phase:";
  for (const PhasePeak& phase : group.phases) {
    text += fmt::format(" {} {}", phase.phase, core::format_bytes(phase.live_bytes));
  }
  text += fmt::format("\n  received by each rank in a step: {}", both(total(group.comm)));
  for (const auto& [kind, bytes] : group.comm) {
    if (bytes > 0) text += fmt::format("; {} {}", op_kind_name(kind), core::format_bytes(bytes));
  }
  return text + "\n";
}

std::string time_text(const Plan& plan, const Simulation& step) {
  const double tokens = static_cast<double>(plan.tokens_per_step());
  return fmt::format(
      "  on {}: {:.4g} s a step, {:.0f} tokens/s; computation waits {:.4g} s for communication and {:.4g} s for "
      "copies\n",
      plan.cluster->name, step.seconds, tokens / step.seconds, step.exposed_comm_seconds, step.exposed_io_seconds);
}

std::string limits_text(const Plan& plan) {
  std::string text;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const auto& limit = plan.limits.tiers[t];
    if (!limit) continue;
    text += fmt::format("{}{}: {} of {} ({})", text.empty() ? "" : "; ", core::tier_names[t],
                        core::format_bytes(plan.groups[0].compiled.plan.tiers[t].peak_bytes),
                        core::format_bytes(limit->bytes), limit->from);
  }
  return text.empty() ? "no limit is known: give --cluster or memory.device_budget_bytes" : text;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  const Layout& layout = *plan.layout;
  std::string text = fmt::format(
      "{} parameters in {} units; {} rank{}, ZeRO stage {}, {}{}; {} microbatch{} of {} × {} tokens a rank\n",
      layout.model->parameters(), layout.units.units.size(), layout.dp, layout.dp == 1 ? "" : "s", layout.zero.stage,
      core::dtype_name(layout.compute), layout.fp8 ? " with fp8 products" : "", layout.microbatches,
      layout.microbatches == 1 ? "" : "es", layout.micro_batch, layout.sequence);
  text += groups_text(layout);
  for (const RankGroup& group : plan.groups) {
    text += group_text(group) + placement_text(layout, group.compiled.plan);
    if (group.step) text += time_text(plan, *group.step);
  }
  if (plan.saves == "foreground") {
    text += "checkpoints are written while training stands still: memory does not hold copies of what they need\n";
  }
  if (!plan.cluster) text += "no time is predicted without --cluster\n";
  if (plan.fits) return text + fmt::format("fits ({})\n", limits_text(plan));
  text += fmt::format("does not fit: {}\n", shortage_text(plan.groups[0].compiled.plan, plan.limits));
  return text + suggestions_text(plan.suggestions) + "\n";
}

}  // namespace zrt::runtime
