#include "tools/commands/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

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

void Reporter::planned(const runtime::Layout& layout, const runtime::Compiled& compiled) {
  ranks_ = layout.dp;
  rank_bytes_ = compiled.plan.peak_bytes;
  std::cerr << fmt::format(
      "{} parameters in {} units, {} rank{}, ZeRO stage {}, {}; {} per rank, peak in '{}' at '{}', packing overhead "
      "{:.2f} %; programs verified in {:.0f} ms\n",
      layout.model->parameters(), layout.units.units.size(), layout.dp, layout.dp == 1 ? "" : "s", layout.zero.stage,
      core::dtype_name(layout.compute), core::format_bytes(compiled.plan.peak_bytes), compiled.plan.peak_phase,
      compiled.plan.peak_op, 100 * compiled.plan.packing_overhead(), 1000 * compiled.verify_seconds);
  start_ = std::chrono::steady_clock::now();
}

void Reporter::step(const runtime::StepMetrics& m) {
  const bool last = m.step == steps_;
  const bool due = interval_ > 0 && (m.step % interval_ == 0 || m.step == 1 || last);
  if (live_ ? !(last || seconds_since(last_) > 0.1) : !due) return;
  last_ = std::chrono::steady_clock::now();
  const double left = seconds_since(start_) / static_cast<double>(m.step) * static_cast<double>(steps_ - m.step);
  std::cerr << fmt::format(
                   "{}step {}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.2e}  {:.0f} tokens/s  {} × {}  {} left{}",
                   live_ ? "\r\033[K" : "", m.step, steps_, m.loss, m.grad_norm, m.lr, m.tokens_per_second(), ranks_,
                   core::format_bytes(rank_bytes_), duration_text(left), live_ ? "" : "\n")
            << std::flush;
  open_line_ = live_;
}

void Reporter::evaluated(int64_t step, const runtime::Evaluation& evaluation) {
  end_line();
  std::cerr << fmt::format("step {}: {}\n", step, evaluation_text(evaluation));
}

void Reporter::end_line() {
  if (open_line_) std::cerr << '\n';
  open_line_ = false;
}

std::string memory_table(const runtime::MemoryReport& report) {
  const runtime::MemoryPlan& plan = report.plan;
  std::string head = fmt::format("{:>4}", "rank"), row;
  for (size_t c = 0; c < core::category_count; ++c) {
    if (plan.categories[c] == 0) continue;
    head += fmt::format(" {:>11}", core::category_names[c]);
    row += fmt::format(" {:>11}", core::format_bytes(plan.categories[c]));
  }
  std::string text =
      fmt::format("device memory at the peak ('{}' in phase '{}'); planned and measured in bytes\n{} {:>15} {:>15}\n",
                  plan.peak_op, plan.peak_phase, head, "planned", "measured");
  for (const runtime::RankMemory& rank : report.ranks) {
    text += fmt::format("{:>4}{} {:>15} {:>15}{}\n", rank.rank, row, rank.planned_peak_bytes, rank.measured_peak_bytes,
                        rank.planned_peak_bytes == rank.measured_peak_bytes ? "" : "  differs");
  }
  text += fmt::format("outside the arenas (code, libraries, heaps): {}; process peak {}\n",
                      core::format_bytes(report.process.outside_arena_bytes),
                      core::format_bytes(report.process.rss_peak_bytes));
  return text;
}

std::string evaluation_text(const runtime::Evaluation& e) {
  std::string text = fmt::format("held-out loss {:.4f} nats per token over {} tokens, perplexity {:.3f}", e.loss,
                                 e.tokens, e.perplexity());
  if (e.bits_per_byte) text += fmt::format(", {:.4f} bits per byte", *e.bits_per_byte);
  if (e.bits_per_byte && e.unigram_entropy) {
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
    text += fmt::format("\n{:<{}}  {:>10}  {:>10}  {:>8.4f}  {:>13}", label, width, one.tokens,
                        one.bytes ? std::to_string(*one.bytes) : "-", one.loss,
                        one.bits_per_byte ? fmt::format("{:.4f}", *one.bits_per_byte) : "-");
  };
  for (const runtime::Evaluation& set : e.sets) row(set.label(), set);
  row("all", e);
  return text;
}

}  // namespace zrt::tools
