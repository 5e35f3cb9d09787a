#include "tools/commands/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/log.h"
#include "core/printable.h"

namespace zrt::tools {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

Reporter::Reporter(int64_t steps, int64_t interval)
    : live_(isatty(STDERR_FILENO) != 0), steps_(steps), interval_(interval), start_(std::chrono::steady_clock::now()) {}

void Reporter::planned(std::span<const runtime::Compiled> stages) {
  const runtime::Layout& layout = stages.front().layout;
  // The stage that needs most.
  const runtime::Compiled& largest =
      *std::max_element(stages.begin(), stages.end(), [](const runtime::Compiled& a, const runtime::Compiled& b) {
        return a.plan.device().peak_bytes < b.plan.device().peak_bytes;
      });
  ranks_ = layout.mesh.world();
  rank_bytes_ = largest.plan.device().peak_bytes;
  int64_t parameters = 0;
  size_t units = 0;
  double verify_seconds = 0;
  for (const runtime::Compiled& stage : stages) {
    units += stage.layout.units.units.size();
    verify_seconds += stage.verify_seconds;
    for (const optimizer::Unit& unit : stage.layout.units.units) {
      for (const optimizer::UnitParam& place : unit.params) {
        parameters += unit.counted_elsewhere ? 0 : place.param->elements_of_all();
      }
    }
  }
  std::string mesh = layout.stage.pipelined() ? fmt::format("{} stages × ", stages.size()) : "";
  std::string shared = layout.mesh.tensor() > 1 ? fmt::format(" × {} that share blocks", layout.mesh.tensor()) : "";
  if (layout.mesh.expert() > 1) shared += fmt::format(", experts spread over {}", layout.mesh.expert());
  std::cerr << fmt::format(
      "{} parameters in {} units, {}{} rank{}{}, ZeRO stage {}, {}; {} per rank{}, peak in '{}' at '{}', packing "
      "overhead "
      "{:.2f} %; programs verified in {:.0f} ms\n",
      parameters, units, mesh, layout.mesh.data(), layout.mesh.data() == 1 ? "" : "s", shared, layout.zero.stage,
      core::dtype_name(layout.compute), core::format_bytes(rank_bytes_),
      mesh.empty() ? "" : fmt::format(" of stage {}, which needs most", largest.layout.stage.index),
      largest.plan.device().peak_phase, largest.plan.device().peak_op, 100 * largest.plan.device().packing_overhead(),
      1000 * verify_seconds);
  start_ = std::chrono::steady_clock::now();
}

void Reporter::step(const runtime::StepMetrics& m) {
  const bool last = m.step == steps_;
  const bool due = interval_ > 0 && (m.step % interval_ == 0 || m.step == first_step_ + 1 || last);
  if (live_ ? !(last || seconds_since(last_) > 0.1) : !due) return;
  last_ = std::chrono::steady_clock::now();
  const double left =
      seconds_since(start_) / static_cast<double>(m.step - first_step_) * static_cast<double>(steps_ - m.step);
  std::cerr << fmt::format(
                   "{}step {}/{}  loss {:.4f}  grad norm {:.3f}{}  lr {:.2e}  {:.0f} tokens/s  {} × {}  {} left{}",
                   live_ ? "\r\033[K" : "", m.step, steps_, m.loss, m.grad_norm, m.skipped ? "  step skipped" : "",
                   m.lr, m.tokens_per_second(), ranks_, core::format_bytes(rank_bytes_), duration_text(left),
                   live_ ? "" : "\n")
            << std::flush;
  open_line_ = live_;
}

void Reporter::evaluated(int64_t step, const runtime::Evaluation& evaluation) {
  end_line();
  std::cerr << fmt::format("step {}: {}\n", step, evaluation_text(evaluation));
}

void Reporter::delinked(int64_t step, const std::vector<int64_t>& groups) {
  end_line();
  std::cerr << fmt::format("step {}: {} layers in {} {} are delinked: from here on each has parameters of its own\n",
                           step, std::accumulate(groups.begin(), groups.end(), int64_t{0}), groups.size(),
                           groups.size() == 1 ? "group" : "groups");
}

void Reporter::resumed(int64_t step, const std::string& folder, uint64_t host_bytes) {
  first_step_ = step;
  std::cerr << (step > 0 ? fmt::format("going on after step {} from {}", step, core::printable(folder))
                         : fmt::format("starting with the weights of {}", core::printable(folder)))
            << fmt::format("; to load them a rank holds at most {} of host memory\n", core::format_bytes(host_bytes));
}

void Reporter::saved(const runtime::SaveOutcome& outcome) {
  end_line();
  if (!outcome.error.empty()) {
    spdlog::error("the checkpoint of step {} was not saved, the last one stays: {}", outcome.step, outcome.error);
    return;
  }
  std::cerr << fmt::format("step {}: saved {} ({}, {:.2f} s in all, training waited {:.2f} s)\n", outcome.step,
                           core::printable(outcome.folder), core::format_bytes(outcome.bytes), outcome.write_seconds,
                           outcome.stall_seconds);
}

void Reporter::warn(const std::string& text) {
  end_line();
  spdlog::warn("{}", text);
}

void Reporter::end_line() {
  if (open_line_) std::cerr << '\n';
  open_line_ = false;
}

namespace {

// Returns the table of the ranks of one stage.
std::string stage_table(const runtime::MemoryReport& report, size_t stage) {
  const runtime::MemoryPlan& plan = report.plans[stage];
  std::string head = fmt::format("{:>4}", "rank"), row;
  for (size_t c = 0; c < core::category_count; ++c) {
    if (plan.device().categories[c] == 0) continue;
    head += fmt::format(" {:>11}", core::category_names[c]);
    row += fmt::format(" {:>11}", core::format_bytes(plan.device().categories[c]));
  }
  std::string text =
      fmt::format("device memory {}at the peak ('{}' in phase '{}'); planned and measured in bytes\n{} {:>15} {:>15}\n",
                  report.plans.size() > 1 ? fmt::format("of stage {} ", stage) : "", plan.device().peak_op,
                  plan.device().peak_phase, head, "planned", "measured");
  std::set<uint64_t> host;
  for (const runtime::RankMemory& rank : report.ranks) {
    if (rank.stage != stage) continue;
    const uint64_t planned = plan.device().peak_bytes, measured = rank.measured_peak_bytes[0];
    text += fmt::format("{:>4}{} {:>15} {:>15}{}\n", rank.rank, row, planned, measured,
                        planned == measured ? "" : "  differs");
    host.insert(rank.measured_peak_bytes[1]);
  }
  if (plan.host().peak_bytes == 0) return text;
  return text + fmt::format(
                    "host memory of every rank (copies for checkpoints, batches of a GPU): {} bytes planned, {} "
                    "measured\n",
                    plan.host().peak_bytes, fmt::join(host, " or "));
}

}  // namespace

std::string memory_table(const runtime::MemoryReport& report) {
  std::string text;
  for (size_t stage = 0; stage < report.plans.size(); ++stage) text += stage_table(report, stage);
  for (const runtime::ProcessReport& process : report.processes) {
    const std::string whose = report.processes.size() == 1 ? "" : fmt::format("rank {}, ", process.ranks.front());
    text += fmt::format("{}outside the arenas (code, libraries, heaps): {}; process peak {}\n", whose,
                        core::format_bytes(process.memory.outside_arena_bytes),
                        core::format_bytes(process.memory.rss_peak_bytes));
    const nlohmann::json gpu = nlohmann::json::parse(process.gpu);
    if (gpu.is_null()) continue;
    text += fmt::format("{}on GPUs outside the arenas: {}, of which {} were in use before the run (context, others)\n",
                        whose, core::format_bytes(gpu["outside_arena_bytes"].get<uint64_t>()),
                        core::format_bytes(gpu["context_bytes"].get<uint64_t>()));
  }
  return text;
}

std::string evaluation_text(const runtime::Evaluation& e) {
  std::string text = fmt::format("held-out loss {:.4f} nats per token over {} tokens, perplexity {:.6g}", e.loss,
                                 e.tokens, e.perplexity());
  if (e.bits_per_byte) text += fmt::format(", {:.4f} bits per byte", *e.bits_per_byte);
  if (e.bits_per_byte && std::isfinite(*e.bits_per_byte) && e.unigram_entropy) {
    const double below = *e.unigram_entropy - *e.bits_per_byte;
    text += fmt::format("; {:.4f} bits per byte ({:.0f} %) {} the text's unigram entropy of {:.4f}", std::abs(below),
                        100 * std::abs(below) / *e.unigram_entropy, below >= 0 ? "below" : "above", *e.unigram_entropy);
  }
  if (e.sets.size() < 2) return text;
  size_t width = 8;
  for (const runtime::Evaluation& set : e.sets) width = std::max(width, set.label().size());
  text += fmt::format("\n{:<{}}  {:>10}  {:>10}  {:>8}  {:>13}", "language", width, "tokens", "bytes", "loss",
                      "bits per byte");
  const auto row = [&](const std::string& label, const runtime::Evaluation& one) {
    text += fmt::format("\n{:<{}}  {:>10}  {:>10}  {:>8.4f}  {:>13}", core::printable(label), width, one.tokens,
                        one.bytes ? std::to_string(*one.bytes) : "-", one.loss,
                        one.bits_per_byte ? fmt::format("{:.4f}", *one.bits_per_byte) : "-");
  };
  for (const runtime::Evaluation& set : e.sets) row(set.label(), set);
  row("all", e);
  return text;
}

}  // namespace zrt::tools
