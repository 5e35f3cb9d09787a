#include "runtime/plan/placement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "runtime/passes/sliding.h"
#include "runtime/program/placement_rules.h"

namespace zrt::runtime {
namespace {

using core::Tier;

void append(std::string& list, const std::string& word) {
  list += (list.empty() ? "" : ", ") + word;
}

// "layers 0–5, 8", empty when none is chosen.
std::string layers_text(const std::vector<bool>& chosen) {
  std::string text;
  size_t several = 0;
  for (size_t first = 0; first < chosen.size(); ++first) {
    if (!chosen[first]) continue;
    size_t last = first;
    while (last + 1 < chosen.size() && chosen[last + 1]) ++last;
    append(text, first == last ? std::to_string(first) : fmt::format("{}–{}", first, last));
    several += last - first + 1;
    first = last;
  }
  return text.empty() ? text : (several == 1 ? "layer " : "layers ") + text;
}

enum class Has : uint8_t { absent, no, yes };  // absent: the unit has no such state

// Names the units that a statement holds for: layers where it holds for all units, and the other units by name.
std::string units_text(const Layout& layout, const std::function<Has(size_t unit)>& holds) {
  const size_t count = layout.units.units.size();
  std::vector<Has> units;
  for (size_t u = 0; u < count; ++u) units.push_back(holds(u));
  if (std::find(units.begin(), units.end(), Has::yes) == units.end()) return "";
  if (std::find(units.begin(), units.end(), Has::no) == units.end()) return "everything";
  std::vector<bool> layers(layer_count(*layout.model));
  std::vector<bool> told(count);
  for (size_t block : layer_blocks(*layout.model)) {
    const size_t layer = layer_of(*layout.model, block);
    const auto& members = layout.units.blocks[block];
    const auto count_of = [&](Has has) {
      return std::count_if(members.begin(), members.end(), [&](uint32_t u) { return units[u] == has; });
    };
    layers[layer] = count_of(Has::yes) > 0 && count_of(Has::no) == 0;
    if (!layers[layer]) continue;
    for (uint32_t u : members) told[u] = true;
  }
  std::string text = layers_text(layers);
  constexpr size_t most = 3;
  size_t others = 0;
  for (size_t u = 0; u < count; ++u) {
    if (units[u] != Has::yes || told[u]) continue;
    if (++others <= most) append(text, layout.units.units[u].name);
  }
  if (others > most) append(text, fmt::format("{} more units", others - most));
  return text;
}

// Statements about the same units stand in one line.
class Lines {
 public:
  void add(const std::string& subject, const std::string& word, const std::string& end) {
    if (subject.empty()) return;
    for (Line& line : lines_) {
      if (line.subject != subject || line.end != end) continue;
      append(line.words, word);
      return;
    }
    lines_.push_back({subject, word, end});
  }
  std::string text() const {
    std::string text;
    for (const Line& line : lines_) text += fmt::format("  {}: {}{}\n", line.subject, line.words, line.end);
    return text;
  }

 private:
  struct Line {
    std::string subject, words, end;
  };
  std::vector<Line> lines_;
};

void add_states(const Layout& layout, Tier tier, Lines& lines) {
  const std::string end = fmt::format(" → {}", core::tier_names[static_cast<size_t>(tier)]);
  const auto state = [&](const std::string& name, const std::function<Has(size_t)>& holds) {
    lines.add(units_text(layout, holds), name, end);
  };
  const auto tiers = [&](size_t u) { return layout.placement.tiers(u); };
  const auto is = [&](Tier resident) { return resident == tier ? Has::yes : Has::no; };
  state("weight", [&](size_t u) { return is(tiers(u).weight); });
  const auto& units = layout.units.units;
  state("grad", [&](size_t u) { return units[u].trained ? is(tiers(u).grad) : Has::absent; });
  state("master", [&](size_t u) { return layout.has_master(units[u]) ? is(tiers(u).master) : Has::absent; });
  std::vector<std::vector<std::string>> kinds;  // by unit
  std::vector<std::string> all;                 // of all units, in the order of their first
  for (const optimizer::Unit& unit : units) {
    auto& names = kinds.emplace_back();
    for (const auto& kind : layout.optimizer->states(unit)) {
      names.push_back(kind.kind);
      if (std::find(all.begin(), all.end(), kind.kind) == all.end()) all.push_back(kind.kind);
    }
  }
  for (const std::string& kind : all) {
    state(kind, [&](size_t u) {
      const auto at = std::find(kinds[u].begin(), kinds[u].end(), kind);
      return at == kinds[u].end() ? Has::absent : is(tiers(u).state(static_cast<size_t>(at - kinds[u].begin())));
    });
  }
}

}  // namespace

std::string resident_tiers_text(const Layout& layout) {
  Lines lines;
  const auto layers = [&](const auto& holds) {
    std::vector<bool> chosen(layer_count(*layout.model));
    for (size_t block : layer_blocks(*layout.model)) chosen[layer_of(*layout.model, block)] = holds(block);
    return layers_text(chosen);
  };
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    add_states(layout, tier, lines);
    lines.add(layers([&](size_t b) { return layout.placement.activation(b) == tier; }), "activations",
              fmt::format(" → {}", core::tier_names[static_cast<size_t>(tier)]));
  }
  const auto on_host = [&](size_t u) {
    if (!layout.units.units[u].trained) return Has::absent;
    return layout.placement.tiers(u).update == Tier::host ? Has::yes : Has::no;
  };
  lines.add(units_text(layout, on_host), "updated on the host", "");
  lines.add(layers([&](size_t b) { return layout.placement.keeps(b) == Recompute::never; }), "nothing computed again",
            "");
  lines.add(layers([&](size_t b) { return layout.placement.keeps(b) == Recompute::selective; }),
            "computed again where that is cheap", "");
  lines.add(layers([&](size_t b) { return layout.placement.keeps(b) == Recompute::full; }), "computed again", "");
  const Sliding& sliding = layout.placement.sliding;
  if (sliding.layers == 0) return lines.text();
  return lines.text() + fmt::format("  weights of {} layers at a time on the device, {} come and go together\n",
                                    layers_at_once(layout), sliding.together);
}

std::string placement_text(const Layout& layout, const MemoryPlan& plan) {
  const std::string tiers = resident_tiers_text(layout);
  if (tiers.empty()) return "";
  const auto cell = [](uint64_t bytes) { return bytes == 0 ? std::string("–") : core::format_bytes(bytes); };
  std::string text = fmt::format("  {:14}{:>14}{:>14}{:>14}\n", "kept by a rank", core::tier_names[0],
                                 core::tier_names[1], core::tier_names[2]);
  using core::Category;
  for (const Category category : {Category::weights, Category::grads, Category::master, Category::moment1,
                                  Category::moment2, Category::activations}) {
    const auto c = static_cast<size_t>(category);
    std::array<uint64_t, core::tier_count> bytes{};
    for (size_t t = 0; t < core::tier_count; ++t) bytes[t] = plan.tiers[t].model_states[c];
    if (bytes == decltype(bytes){}) continue;
    text += fmt::format("  {:14}{:>14}{:>14}{:>14}\n", core::category_names[c], cell(bytes[0]), cell(bytes[1]),
                        cell(bytes[2]));
  }
  return text + tiers;
}

std::string blocks_text(const models::Model& model) {
  std::vector<bool> layers(layer_count(model));
  for (size_t block : layer_blocks(model)) layers[layer_of(model, block)] = true;
  std::string text = model.has_embedding() ? "embedding" : "";
  if (const std::string some = layers_text(layers); !some.empty()) append(text, some);
  if (model.has_head()) append(text, "head");
  return text;
}

}  // namespace zrt::runtime
