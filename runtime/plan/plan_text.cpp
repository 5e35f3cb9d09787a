#include <fmt/format.h>

#include <algorithm>

#include "runtime/ops/spec.h"
#include "runtime/plan/group_summary.h"
#include "runtime/plan/group_ways.h"
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

std::string ranks_text(int first, int last) {
  return first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}–{}, all alike", first, last);
}

std::string time_text(const Plan& plan, const StagePlan& stage) {
  const Simulation& step = *stage.step;
  const std::string waits = fmt::format("computation waits {:.4g} s for communication and {:.4g} s for copies",
                                        step.exposed_comm_seconds, step.exposed_io_seconds);
  if (stage.compiled.layout.stage.pipelined()) {
    return fmt::format("  computes {:.4g} s of a step and is idle {:.1f} % of it; {}\n", step.busy_seconds.front(),
                       100 * stage.idle_share(), waits);
  }
  return fmt::format("  on {}: {:.4g} s a step, {:.0f} tokens/s; {}\n", plan.cluster->name, step.seconds,
                     static_cast<double>(plan.tokens_per_step()) / step.seconds, waits);
}

std::string stage_text(const Plan& plan, const StagePlan& stage) {
  const Layout& layout = stage.compiled.layout;
  const std::string ranks = ranks_text(stage.first, stage.last);
  std::string text = ranks + "\n";
  if (layout.stage.pipelined()) {
    text = fmt::format("stage {}, {}: {}, {} parameters\n", layout.stage.index, ranks, blocks_text(*layout.model),
                       layout.model->parameters());
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = stage.compiled.plan.tiers[t];
    if (tier.peak_bytes > 0) text += tier_text(tier, core::tier_names[t]);
  }
  text += "  device by phase:";
  for (const PhasePeak& phase : stage.phases) {
    text += fmt::format(" {} {}", phase.phase, core::format_bytes(phase.live_bytes));
  }
  text += fmt::format("\n  received by each rank in a step: {}", both(total(stage.comm)));
  for (const auto& [kind, bytes] : stage.comm) {
    if (bytes > 0) text += fmt::format("; {} {}", op_kind_name(kind), core::format_bytes(bytes));
  }
  text += "\n";
  if (layout.stage.pipelined() && layout.zero.weights == optimizer::Extent::shard) {
    text += fmt::format("  gathered weights stay for a {}\n", gathered_for_name(layout.gathered_for));
  }
  text += placement_text(layout, stage.compiled.plan);
  return stage.step ? text + time_text(plan, stage) : text;
}

// The stage that needs most of a tier.
std::string limits_text(const Plan& plan) {
  std::string text;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const auto& limit = plan.limits.tiers[t];
    if (!limit) continue;
    uint64_t most = 0;
    for (const StagePlan& stage : plan.stages) most = std::max(most, stage.compiled.plan.tiers[t].peak_bytes);
    text += fmt::format("{}{}: {} of {} ({})", text.empty() ? "" : "; ", core::tier_names[t], core::format_bytes(most),
                        core::format_bytes(limit->bytes), limit->from);
  }
  return text.empty() ? "no limit is known: give --cluster or memory.device_budget_bytes" : text;
}

// "4 stages of 1f1b × 2 ranks", "2 ranks", "2 ranks × 4 that share blocks".
std::string mesh_text(const Layout& layout) {
  const std::string ranks =
      fmt::format("{} rank{}{}{}", layout.mesh.data(), layout.mesh.data() == 1 ? "" : "s",
                  layout.mesh.tensor() == 1 ? "" : fmt::format(" × {} that share blocks", layout.mesh.tensor()),
                  layout.mesh.expert() == 1 ? "" : fmt::format(", experts spread over {}", layout.mesh.expert()));
  const Schedule& schedule = layout.stage.schedule;
  if (!layout.stage.pipelined()) return ranks;
  const std::string chunks = schedule.chunks > 1 ? fmt::format(" with {} chunks each", schedule.chunks) : "";
  return fmt::format("{} stages{} in the schedule {} × {}", schedule.stages, chunks, schedule_name(schedule.kind),
                     ranks);
}

std::string pipeline_time_text(const Plan& plan) {
  const auto busiest = std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const StagePlan& a, const StagePlan& b) { return a.step->busy_seconds[0] < b.step->busy_seconds[0]; });
  return fmt::format("on {}: {:.4g} s a step, {:.0f} tokens/s; stage {} computes longest, {:.4g} s\n",
                     plan.cluster->name, plan.seconds_per_step(),
                     static_cast<double>(plan.tokens_per_step()) / plan.seconds_per_step(),
                     busiest->compiled.layout.stage.index, busiest->step->busy_seconds[0]);
}

}  // namespace

std::string plan_text(const Plan& plan) {
  const Layout& layout = plan.layout();
  size_t units = 0;
  for (const StagePlan& stage : plan.stages) units += stage.compiled.layout.units.units.size();
  const std::string active =
      plan.active_parameters == plan.parameters ? "" : fmt::format(", {} of them for a token,", plan.active_parameters);
  std::string text =
      fmt::format("{} parameters{} in {} units; {}, ZeRO stage {}, {}{}; {} microbatch{} of {} × {} tokens a rank\n",
                  plan.parameters, active, units, mesh_text(layout), layout.zero.stage,
                  core::dtype_name(layout.compute), layout.fp8 ? " with fp8 products" : "", layout.microbatches,
                  layout.microbatches == 1 ? "" : "es", layout.micro_batch, layout.sequence);
  text += groups_text(plan);
  for (const StagePlan& stage : plan.stages) text += stage_text(plan, stage);
  text += group_ways_text(plan);
  if (plan.cluster && layout.stage.pipelined()) text += pipeline_time_text(plan);
  if (plan.saves == "foreground") {
    text += "checkpoints are written while training stands still: memory does not hold copies of what they need\n";
  }
  if (!plan.cluster) text += "no time is predicted without --cluster\n";
  if (plan.fits) return text + fmt::format("fits ({})\n", limits_text(plan));
  for (const StagePlan& stage : plan.stages) {
    const std::string shortage = shortage_text(stage.compiled.plan, plan.limits);
    if (shortage.empty()) continue;
    const std::string who = layout.stage.pipelined() ? fmt::format("stage {} ", stage.compiled.layout.stage.index) : "";
    text += fmt::format("{}does not fit: {}\n", who, shortage);
  }
  return text + suggestions_text(plan.suggestions) + "\n";
}

}  // namespace zrt::runtime
