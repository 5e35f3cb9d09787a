#include "runtime/plan/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "core/error.h"
#include "core/format_count.h"
#include "runtime/plan/placement_text.h"
#include "runtime/plan/plan.h"

namespace zrt::runtime {
namespace {

constexpr size_t short_pipeline = 8;  // so many stages are all shown

uint64_t device_peak(const StagePlan& stage) {
  return stage.compiled.plan.device().peak_bytes;
}
double busy_seconds(const StagePlan& stage) {
  return stage.step->busy_seconds.front();
}

template <class Less>
size_t largest(const Plan& plan, const Less& less) {
  return static_cast<size_t>(std::max_element(plan.stages.begin(), plan.stages.end(), less) - plan.stages.begin());
}

constexpr size_t columns = 10;
using Row = std::array<std::string, columns>;

Row title(bool timed) {
  return {"stage",
          "ranks",
          "parameters",
          "device",
          "host",
          "nvme",
          "receives",
          timed ? "computes" : "",
          timed ? "idle" : "",
          "layers"};
}

Row row_of(const Plan& plan, size_t s) {
  const StagePlan& stage = plan.stages[s];
  const Layout& layout = stage.compiled.layout;
  Row row;
  row[0] = std::to_string(s);
  row[1] = stage.first == stage.last ? std::to_string(stage.first) : fmt::format("{}–{}", stage.first, stage.last);
  row[2] = core::format_count(layout.model->parameters());
  for (size_t t = 0; t < core::tier_count; ++t) {
    const uint64_t peak = stage.compiled.plan.tiers[t].peak_bytes;
    row[3 + t] = peak > 0 ? core::format_bytes(peak) : "–";
  }
  row[6] = core::format_bytes(total(stage.comm));
  if (stage.step) {
    row[7] = fmt::format("{:.4g} s", busy_seconds(stage));
    row[8] = fmt::format("{:.1f} %", 100 * stage.idle_share());
  }
  row[9] = blocks_text(*layout.model);
  if (s == fullest_stage(plan)) row[9] += "; fullest";
  if (stage.step && s == slowest_stage(plan)) row[9] += "; computes longest";
  return row;
}

}  // namespace

StagesShown stages_shown(const std::string& text, size_t stages) {
  if (text == "all") return {true, {}};
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0 && static_cast<size_t>(number) < stages) {
    return {false, number};
  }
  throw core::UsageError(
      fmt::format("--stage is '{}'; legal is all, or a stage of the pipeline: 0 to {}", text, stages - 1));
}

size_t fullest_stage(const Plan& plan) {
  return largest(plan, [](const StagePlan& a, const StagePlan& b) { return device_peak(a) < device_peak(b); });
}

size_t slowest_stage(const Plan& plan) {
  return largest(plan, [](const StagePlan& a, const StagePlan& b) { return busy_seconds(a) < busy_seconds(b); });
}

std::vector<size_t> stages_listed(const Plan& plan, bool all) {
  const size_t count = plan.stages.size();
  std::set<size_t> chosen{0, count - 1, fullest_stage(plan)};
  if (plan.cluster) chosen.insert(slowest_stage(plan));
  for (size_t s = 0; s < count && (all || count <= short_pipeline); ++s) chosen.insert(s);
  return {chosen.begin(), chosen.end()};
}

std::string stage_table(const Plan& plan, bool all) {
  const size_t count = plan.stages.size();
  const std::vector<size_t> chosen = stages_listed(plan, all);
  std::vector<Row> rows{title(plan.cluster.has_value())};
  for (const size_t s : chosen) rows.push_back(row_of(plan, s));
  std::array<size_t, columns> widths{};
  // "–" is one column of a terminal and three bytes.
  const auto wide = [](const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  for (const Row& row : rows) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], wide(row[c]));
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t c = 0; c + 1 < columns; ++c) {
      if (widths[c] == 0) continue;
      text += fmt::format("{}{}{}", c == 0 ? "" : "  ", std::string(widths[c] - wide(row[c]), ' '), row[c]);
    }
    text += fmt::format("  {}\n", row.back());
  }
  if (chosen.size() < count) {
    text += fmt::format("and {} stages between these; --stage all has them\n", count - chosen.size());
  }
  return text;
}

std::vector<size_t> stages_told(const Plan& plan, const StagesShown& shown) {
  std::vector<size_t> told;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (shown.all || s == (shown.stage ? static_cast<size_t>(*shown.stage) : fullest_stage(plan))) told.push_back(s);
  }
  return told;
}

}  // namespace zrt::runtime
