// The result of a search as a table for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/ledger.h"
#include "core/printable.h"
#include "runtime/search/search.h"

namespace zrt::runtime::search {
namespace {

constexpr size_t shown_ways = 12;  // --json has all

}  // namespace

std::string loss_text(const Found& found, const Found& first) {
  struct Part {
    const char* name;
    double more;
  };
  const std::array<Part, 4> parts{{{"computation", found.busy_seconds - first.busy_seconds},
                                   {"communication", found.comm_seconds - first.comm_seconds},
                                   {"copies", found.io_seconds - first.io_seconds},
                                   {"waiting for other stages", found.idle_seconds() - first.idle_seconds()}}};
  const Part* most = parts.data();
  for (const Part& part : parts) {
    if (part.more > most->more) most = &part;
  }
  const std::string behind = fmt::format("+{:.1f} %", 100 * (found.seconds / first.seconds - 1));
  return most->more > 0 ? fmt::format("{}, {} +{:.3g} s", behind, most->name, most->more) : behind;
}

std::string search_text(const Result& result, const Task& task, const Cluster& cluster, const Price& price,
                        const std::string& command) {
  const Config& config = task.config;
  const int ranks = task.ranks;
  std::string text =
      fmt::format("{} rank{} of {}, {} samples of {} tokens a step: {} ways are legal, {} of them compiled\n", ranks,
                  ranks == 1 ? "" : "s", cluster.name, config.batch.train, config.model.sequence, result.considered,
                  result.compiled);
  for (const auto& [key, value] : task.fixed) text += fmt::format("  {} = {}, as the command line says\n", key, value);
  const bool experts = task.experts > 0;
  if (result.found.empty()) {
    text += result.placed ? "None of them fits, with states on the host either." : "None of them fits the device tier.";
    if (!result.refused.empty()) text += " Of those that were refused: " + result.refused;
    return text + " `zrt plan` without --search says what one lacks.\n";
  }
  text += fmt::format("{:>3} {:>9} {:>10} {:>6} {:>8} {:>5}{} {:>6} {:<11} {:>5} {:>10} {:>5} {:<9} {:>10}  {}\n", "",
                      "s/step", "tokens/s", "tensor", "pipeline", "data", experts ? " experts over" : "", "chunks",
                      "schedule", "stage", "microbatch", "steps", "recompute", "device", "behind the first");
  for (size_t i = 0; i < std::min(result.found.size(), shown_ways); ++i) {
    const Found& found = result.found[i];
    const Choice& choice = found.choice;
    const double tokens = static_cast<double>(config.batch.train * config.model.sequence);
    text += fmt::format(
        "{:>3} {:>9.4g} {:>10.4g} {:>6} {:>8} {:>5}{} {:>6} {:<11} {:>5} {:>10} {:>5} {:<9} {:>10}  {}\n", i + 1,
        found.seconds, tokens / found.seconds, choice.tensor, choice.pipeline, choice.data(task),
        experts ? fmt::format(" {:>12}", choice.expert) : "", choice.chunks,
        choice.pipeline > 1 ? choice.schedule : "–", choice.stage, choice.micro, choice.microbatches(task),
        choice.recompute, core::format_bytes(found.peaks[0]), i == 0 ? "" : loss_text(found, result.found.front()));
  }
  const Found& first = result.found.front();
  if (result.offloads) text += "States and activations leave the device: with all of them there none fits.\n";
  text += fmt::format(
      "The fastest computes {:.4g} s of a step, waits {:.4g} s for communication, {:.4g} s for copies and {:.4g} s for "
      "other stages.\n",
      first.busy_seconds, first.comm_seconds, first.io_seconds, first.idle_seconds());
  if (price.tokens > 0) {
    const double tokens = static_cast<double>(config.batch.train * config.model.sequence);
    text += "The fastest: " + cost_text(run_cost(first.seconds, tokens, ranks, price, cluster), price) + ".\n";
  }
  text += command;
  for (const auto& [key, value] : keys_of(first.choice, task)) {
    text += " --set " + core::in_shell(key + "=" + value);
  }
  return text + "\n";
}

}  // namespace zrt::runtime::search
