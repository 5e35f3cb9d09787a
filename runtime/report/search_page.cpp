#include "runtime/report/search_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/ledger.h"
#include "runtime/report/draw/figure.h"
#include "runtime/report/draw/page.h"

namespace zrt::runtime {
namespace {

double bytes_of(const search::Found& found) {
  return static_cast<double>(found.peaks[static_cast<size_t>(core::Tier::device)]);
}

// Draws each way as a point, and the fastest with so much memory as stairs. A point that is not drawn lies between two
// ways.
std::string frontier(const search::Result& result) {
  std::vector<const search::Found*> ways;
  for (const search::Found& found : result.found) ways.push_back(&found);
  std::stable_sort(ways.begin(), ways.end(), [](const auto* a, const auto* b) { return bytes_of(*a) < bytes_of(*b); });
  draw::Figure figure;
  figure.title = "A step's seconds against the memory of the fullest rank";
  figure.x_name = "bytes of the device", figure.y_name = "seconds of a step";
  figure.x_unit = draw::Unit::bytes, figure.y_unit = draw::Unit::seconds;
  draw::FigureLine each{"a way that fits", {}, {}, {}}, least{"the fastest with so much memory", {}, {}, {}};
  double fastest = std::nan("");
  for (const search::Found* way : ways) {
    for (const double seconds : {way->seconds, std::nan("")}) {
      figure.x.push_back(bytes_of(*way));
      each.y.push_back(seconds), least.y.push_back(fastest);
      fastest = std::fmin(fastest, way->seconds);
    }
  }
  figure.lines = {std::move(each), std::move(least)};
  return draw::draw_figure(figure);
}

std::string ways_table(const search::Result& result, const search::Task& task, const Cluster& cluster,
                       const Price& price) {
  std::vector<std::string> head{"", "seconds of a step", "device"};
  if (price.tokens > 0) head.emplace_back("GPU-hours");
  if (price.tokens > 0 && price.per_gpu_hour > 0) head.emplace_back("cost");
  head.insert(head.end(), {"behind the first", "keys"});
  const double tokens = static_cast<double>(task.config.batch.train * task.config.model.sequence);
  std::vector<std::vector<std::string>> rows;
  for (const search::Found& found : result.found) {
    std::vector<std::string> row{fmt::format("{}", rows.size() + 1), fmt::format("{:.4g}", found.seconds),
                                 core::format_bytes(found.peaks[static_cast<size_t>(core::Tier::device)])};
    const RunCost cost = run_cost(found.seconds, tokens, task.ranks, price, cluster);
    if (price.tokens > 0) row.push_back(fmt::format("{:.4g}", cost.gpu_hours));
    if (price.tokens > 0 && price.per_gpu_hour > 0) row.push_back(fmt::format("{:.4g}", cost.money.value_or(0)));
    row.push_back(rows.empty() ? "" : search::loss_text(found, result.found.front()));
    std::string keys;
    for (const auto& [key, value] : search::keys_of(found.choice, task)) keys += fmt::format("{}={} ", key, value);
    row.push_back(keys);
    rows.push_back(std::move(row));
  }
  return draw::table(head, rows);
}

}  // namespace

std::string search_page(const search::Result& result, const search::Task& task, const Cluster& cluster,
                        const Price& price, const std::string& command) {
  std::vector<std::string> parts;
  const auto paragraph = [](const std::string& text) { return "<p>" + draw::escaped(text) + "</p>"; };
  parts.push_back(paragraph(fmt::format("{} ways are legal, {} of them compiled, {} fit.", result.considered,
                                        result.compiled, result.found.size())));
  if (!result.found.empty()) {
    if (result.offloads)
      parts.push_back(paragraph("States and activations leave the device: with all of them there none fits."));
    parts.push_back(frontier(result));
    parts.push_back(ways_table(result, task, cluster, price));
    std::string first = command;
    for (const auto& [key, value] : search::keys_of(result.found.front().choice, task)) {
      first += fmt::format(" --set {}={}", key, value);
    }
    parts.push_back(paragraph("The command of the fastest: " + first));
  }
  return draw::page(fmt::format("{} ranks of {}: ways to spread the run", task.ranks, cluster.name), parts);
}

}  // namespace zrt::runtime
