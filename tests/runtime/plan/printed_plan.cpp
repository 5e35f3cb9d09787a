#include "tests/runtime/plan/printed_plan.h"

#include <fmt/format.h>

#include <map>

#include "runtime/program/placement_rules.h"

namespace zrt::testing {

using nlohmann::json;

std::string in_units(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}
std::string in_thousands(int64_t count) {
  const std::string digits = std::to_string(count);
  if (digits.size() < 4) return digits;
  // Three digits, rounded, and where the point stands among them.
  const double mantissa = std::stod(digits.substr(0, 1) + "." + digits.substr(1));
  const std::string rounded = fmt::format("{:.2f}", mantissa);
  const bool next = rounded.size() > 4;  // 9.996 is 10.00
  const std::string three = next ? "100" : rounded.substr(0, 1) + rounded.substr(2);
  const size_t places = digits.size() + (next ? 1 : 0), before = (places - 1) % 3 + 1;
  return three.substr(0, before) + (before < 3 ? "." + three.substr(before) : "") + "?KMBT"[(places - 1) / 3];
}
std::set<size_t> layers_in(const std::string& text) {
  std::set<size_t> layers;
  std::smatch found;
  if (!std::regex_search(text, found, std::regex("layers? ((\\d+(–\\d+)?(, )?)+)"))) return layers;
  std::stringstream list(found[1].str());
  for (std::string part; std::getline(list, part, ',') && part.find_first_of("0123456789") != std::string::npos;) {
    const size_t dash = part.find("–");
    const size_t first = std::stoul(part), last = dash == std::string::npos ? first : std::stoul(part.substr(dash + 3));
    for (size_t layer = first; layer <= last; ++layer) layers.insert(layer);
  }
  return layers;
}

json rank_of_stage(const json& plan, size_t stage) {
  for (const json& entry : plan["ranks"]) {
    if (entry["stage"] == stage) return entry;
  }
  return nullptr;
}

namespace {

// Checks that what a line says of layers holds for each of their blocks, and for no other layer.
void statement(const Layout& layout, const std::string& whose, const std::string& what, const std::string& tier) {
  const auto is_resident = [&](uint32_t u, const std::string& state) {
    const UnitTiers& tiers = layout.placement.tiers(u);
    const auto named = [&](core::Tier resident) { return tier == core::tier_names[static_cast<size_t>(resident)]; };
    if (state == "updated on the host") return tiers.update == core::Tier::host;
    if (state == "weight") return named(tiers.weight);
    if (state == "grad") return named(tiers.grad);
    if (state == "master") return named(tiers.master);
    const auto kinds = layout.optimizer->states(layout.units.units[u]);
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i].kind == state) return named(tiers.state(i));
    }
    return true;  // it has none
  };
  const std::set<size_t> said = layers_in(whose);
  std::stringstream words(what);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.front() == ' ') word.erase(0, 1);
    CAPTURE(whose, word, tier);
    for (const size_t block : layer_blocks(*layout.model)) {
      const size_t layer = layer_of(*layout.model, block);
      bool holds = true;
      if (word == "activations") {
        holds = tier == core::tier_names[static_cast<size_t>(layout.placement.activation(block))];
      } else if (word == "nothing computed again") {
        holds = layout.placement.keeps(block) == Recompute::never;
      } else if (word.starts_with("computed again")) {
        holds = layout.placement.keeps(block) == (word == "computed again" ? Recompute::full : Recompute::selective);
      } else {
        for (const uint32_t u : layout.units.blocks[block]) holds = holds && is_resident(u, word);
      }
      CHECK(holds == (whose == "everything" || said.count(layer) > 0));
    }
  }
}

uint64_t most_of(const json& plan, const std::string& tier) {
  uint64_t most = 0;
  for (const json& entry : plan["ranks"]) {
    most = std::max(most, entry["tiers"][tier]["planned_peak_bytes"].get<uint64_t>());
  }
  return most;
}

void check_limits(PrintedLines& lines, const json& plan) {
  lines.need("fits \\((.*)\\)");
  const std::string said = lines.part(1);
  std::string text;
  for (const char* tier : {"device", "host", "nvme"}) {
    const json& limit = plan["limits"][tier];
    if (limit.is_null()) continue;
    INFO(said);
    CHECK((said.find(fmt::format("{}: ", tier)) != std::string::npos) == (most_of(plan, tier) > 0));
    if (most_of(plan, tier) == 0) continue;
    text += fmt::format("{}{}: {} of {} ", text.empty() ? "" : "; ", tier,
                        in_units(static_cast<double>(most_of(plan, tier))), in_units(limit));
    CHECK(most_of(plan, tier) <= limit.get<uint64_t>());
    const size_t at = said.find(text.substr(text.rfind(tier)));
    INFO(said << " lacks " << text);
    CHECK(at != std::string::npos);
  }
  CHECK(text.empty() == (said.find("no limit is known") == 0));
}

void check_shortages(PrintedLines& lines, const json& plan) {
  bool any = false;
  while (lines.take(
      "(?:stage (\\d+) )?(?:does not fit: )?(.*) is (\\d+) bytes \\((.*)\\) but each rank needs (\\d+) bytes "
      "\\((.*)\\) of its (\\w+) tier; the peak is in phase '(.*)' at '(.*)'.")) {
    any = true;
    const json own = rank_of_stage(plan, lines.has(1) ? lines.number(1) : 0)["tiers"][lines.part(7)];
    CHECK(plan["limits"][lines.part(7)] == lines.number(3));
    CHECK(lines.part(4) == in_units(static_cast<double>(lines.number(3))));
    CHECK(own["planned_peak_bytes"] == lines.number(5));
    CHECK(lines.part(6) == in_units(static_cast<double>(lines.number(5))));
    CHECK(own["peak_phase"] == lines.part(8));
    CHECK(own["peak_op"] == lines.part(9));
  }
  CHECK(any);
  if (plan["suggestions"].empty()) return lines.need("No higher stage, .*");
  lines.need("What fits, the cheapest first:");
  // The options stand in the order in which changes were made, which this JSON has lost.
  for (const json& suggestion : plan["suggestions"]) {
    lines.need("  (--.*)");
    const std::string options = lines.part(1);
    for (const auto& [key, value] : suggestion["changes"].items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      const std::string option = key == "ranks" ? "--ranks " + text : "--set " + key + "=" + text;
      CHECK(options.find(option) != std::string::npos);
    }
    lines.need("    peak (\\d+) bytes \\((.*?)\\) a rank; a rank receives ([^;]*)(.*)");
    const json& peaks = suggestion["planned_peak_bytes"];
    CHECK(peaks["device"] == lines.number(1));
    CHECK(lines.part(2) == in_units(peaks["device"]));
    CHECK(lines.part(3) == in_units(suggestion["comm_bytes"]) + " a step");
    const std::string rest = lines.part(4);
    CHECK((rest.find("of host memory") != std::string::npos) == (peaks["host"] > 0));
    if (peaks["host"] > 0) CHECK(rest.find("; " + in_units(peaks["host"]) + " of host memory") == 0);
    if (!suggestion["seconds_per_step"].is_null()) {
      CHECK(rest.find(fmt::format("; {:.4g} s a step", suggestion["seconds_per_step"].get<double>())) !=
            std::string::npos);
    }
  }
}

}  // namespace

void check_homes(PrintedLines& lines, const json& own, const StagePlan& plan) {
  if (!lines.take("  kept by a rank .*")) return;
  std::map<std::string, bool> seen;
  while (lines.take("  (\\w+) +(–|\\S+ \\w+) +(–|\\S+ \\w+) +(–|\\S+ \\w+)")) {
    const std::string name = lines.part(1);
    INFO(name);
    seen[name] = true;
    for (size_t t = 0; t < core::tier_count; ++t) {
      uint64_t bytes = 0;
      if (name == "activations") {
        for (const Buffer& buffer : plan.compiled.set.buffers) {
          const bool counts = buffer.life != Life::transient && buffer.category == core::Category::activations &&
                              buffer.tier == static_cast<core::Tier>(t);
          bytes += counts ? buffer.bytes * buffer.slots : 0;
        }
      } else {
        bytes = own["homes"][name][std::string(core::tier_names[t])];
      }
      CHECK(lines.part(2 + t) == (bytes == 0 ? "–" : in_units(static_cast<double>(bytes))));
    }
  }
  for (const auto& [name, tiers] : own["homes"].items()) {
    const bool any = tiers["device"] > 0 || tiers["host"] > 0 || tiers["nvme"] > 0;
    CHECK(any == (seen.count(name) > 0));
  }
  const Layout& layout = plan.compiled.layout;
  while (lines.take("  (.*): ([^:]*) → (\\w+)")) statement(layout, lines.part(1), lines.part(2), lines.part(3));
  while (lines.take("  (.*): (updated on the host|nothing computed again|computed again.*)"))
    statement(layout, lines.part(1), lines.part(2), "");
}

void check_fit(PrintedLines& lines, const json& plan) {
  plan["fits"].get<bool>() ? check_limits(lines, plan) : check_shortages(lines, plan);
}

}  // namespace zrt::testing
