#include <fmt/format.h>

#include <algorithm>

#include "core/format_count.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/group_summary.h"
#include "runtime/plan/group_ways.h"
#include "runtime/plan/placement_text.h"
#include "runtime/plan/plan.h"

namespace zrt::runtime {
namespace {

constexpr size_t shortages_told = 3;

std::string tier_text(const TierPlan& tier, std::string_view name) {
  std::string text = fmt::format("  {}: peak {} in phase '{}' at '{}'\n   ", name, core::format_bytes(tier.peak_bytes),
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
    return fmt::format("  {}\n", waits);
  }
  return fmt::format("  on {}: {:.4g} s a step, {:.0f} tokens/s; {}\n", plan.cluster->name, step.seconds,
                     static_cast<double>(plan.tokens_per_step()) / step.seconds, waits);
}

std::string stage_text(const Plan& plan, const StagePlan& stage) {
  const Layout& layout = stage.compiled.layout;
  const std::string ranks = ranks_text(stage.first, stage.last);
  std::string text = ranks + "\n";
  if (layout.stage.pipelined()) {
    text = fmt::format("stage {}, {}:\n", layout.stage.index, ranks);
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = stage.compiled.plan.tiers[t];
    if (tier.peak_bytes > 0) text += tier_text(tier, core::tier_names[t]);
  }
  text += "  device by phase:";
  for (const PhasePeak& phase : stage.phases) {
    text += fmt::format(" {} {}", phase.phase, core::format_bytes(phase.live_bytes));
  }
  text += fmt::format("\n  received by each rank in a step: {}", core::format_bytes(total(stage.comm)));
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

// The stage that needs most of a tier; tiers that nothing is in are left out.
std::string limits_text(const Plan& plan) {
  std::string text;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const auto& limit = plan.limits.tiers[t];
    if (!limit) continue;
    uint64_t most = 0;
    for (const StagePlan& stage : plan.stages) most = std::max(most, stage.compiled.plan.tiers[t].peak_bytes);
    if (most == 0) continue;
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
  return fmt::format("on {}: {:.4g} s a step, {:.0f} tokens/s\n", plan.cluster->name, plan.seconds_per_step(),
                     static_cast<double>(plan.tokens_per_step()) / plan.seconds_per_step());
}

// Names the stages that lack most, beside what they may have, and counts the others.
std::string shortages_text(const Plan& plan) {
  const auto lack = [&](const StagePlan& stage) {
    double most = 0;
    for (size_t t = 0; t < core::tier_count; ++t) {
      const auto& limit = plan.limits.tiers[t];
      const auto peak = static_cast<double>(stage.compiled.plan.tiers[t].peak_bytes);
      if (limit) most = std::max(most, peak / std::max(1.0, static_cast<double>(limit->bytes)));
    }
    return most;
  };
  std::vector<const StagePlan*> short_of;
  for (const StagePlan& stage : plan.stages) {
    if (!shortage_text(stage.compiled.plan, plan.limits).empty()) short_of.push_back(&stage);
  }
  std::stable_sort(short_of.begin(), short_of.end(),
                   [&](const StagePlan* a, const StagePlan* b) { return lack(*a) > lack(*b); });
  std::string text;
  for (size_t i = 0; i < std::min(short_of.size(), shortages_told); ++i) {
    const Stage& stage = short_of[i]->compiled.layout.stage;
    text += fmt::format("{}does not fit: {}\n", stage.pipelined() ? fmt::format("stage {} ", stage.index) : "",
                        shortage_text(short_of[i]->compiled.plan, plan.limits));
  }
  if (short_of.size() > shortages_told) {
    text += fmt::format("nor do {} other stages, which lack less\n", short_of.size() - shortages_told);
  }
  return text;
}

}  // namespace

std::string plan_text(const Plan& plan, const StagesShown& shown) {
  const Layout& layout = plan.layout();
  size_t units = 0;
  for (const StagePlan& stage : plan.stages) units += stage.compiled.layout.units.units.size();
  const std::string active = plan.active_parameters == plan.parameters
                                 ? ""
                                 : fmt::format(", {} of them for a token,", core::format_count(plan.active_parameters));
  std::string text =
      fmt::format("{} parameters{} in {} units; {}, ZeRO stage {}, {}{}; {} microbatch{} of {} × {} tokens a rank\n",
                  core::format_count(plan.parameters), active, units, mesh_text(layout), layout.zero.stage,
                  core::dtype_name(layout.compute), layout.fp8 ? " with fp8 products" : "", layout.microbatches,
                  layout.microbatches == 1 ? "" : "es", layout.micro_batch, layout.sequence);
  text += groups_text(plan);
  if (layout.stage.pipelined()) text += stage_table(plan, shown.all);
  for (const size_t s : stages_told(plan, shown)) text += stage_text(plan, plan.stages[s]);
  text += group_ways_text(plan);
  if (plan.cluster && layout.stage.pipelined()) text += pipeline_time_text(plan);
  if (plan.saves == "foreground") {
    text += "checkpoints are written while training stands still: memory does not hold copies of what they need\n";
  }
  if (!plan.cluster) text += "no time is predicted without --cluster\n";
  if (plan.fits) return text + fmt::format("fits ({})\n", limits_text(plan));
  text += shortages_text(plan);
  return text + suggestions_text(plan.suggestions) + "\n";
}

}  // namespace zrt::runtime
