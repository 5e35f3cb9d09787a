#include "runtime/plan/offload_candidates.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/device.h"
#include "optimizer/optimizer.h"
#include "runtime/cost/cost.h"
#include "runtime/program/placement_rules.h"

namespace zrt::runtime {
namespace {

using What = OffloadCandidate::What;

uint64_t as_bytes(int64_t elements, core::DType type) {
  return static_cast<uint64_t>(elements) * core::dtype_size(type);
}

// Puts what a candidate is into a tier; one that is computed again is in none.
void leave(Layout& layout, const OffloadCandidate& candidate, Tier tier) {
  Placement& placement = layout.placement;
  switch (candidate.what) {
    case What::optimizer: {
      UnitTiers& tiers = placement.units[candidate.index];
      const optimizer::Unit& unit = layout.units.units[candidate.index];
      if (layout.has_master(unit)) tiers.master = tier;
      tiers.states.assign(layout.optimizer->states(unit).size(), tier);
      break;
    }
    case What::grad:
      placement.units[candidate.index].grad = tier;
      break;
    case What::weight:
      placement.units[candidate.index].weight = tier;
      break;
    case What::activations:
      placement.activations[candidate.index] = tier;
      break;
    case What::recompute:
      break;
  }
}

// Prices what a step moves and computes for the states and activations that have left.
class Prices {
 public:
  Prices(const Layout& layout, const Cluster& cluster) : layout_(layout), cluster_(cluster) {
    link_ = cluster.host_link.bytes_per_second;
    if (layout.link_bytes_per_second > 0) link_ = std::min(link_, layout.link_bytes_per_second);
    passes_ = layout.microbatches / layout.together();
    const int behind = layout.stage.schedule.stages - layout.stage.index;  // stages, this one included
    alive_ =
        layout.stage.pipelined() ? std::min(layout.microbatches, static_cast<uint32_t>(behind)) : layout.together();
    windows_ = layout.microbatches / layout.reduce_every;
  }

  // Master and states, updated where they are: the gradient goes down and the new weight up. Without a master the
  // weight, which the update reads, goes down too.
  OffloadCandidate optimizer(size_t u) const {
    const optimizer::Unit& unit = layout_.units.units[u];
    uint64_t bytes = layout_.has_master(unit) ? as_bytes(unit.extent(unit.held.states), core::DType::f32) : 0;
    for (const optimizer::UnitState& kind : layout_.optimizer->states(unit)) {
      bytes += kind.bytes_of(unit);
    }
    const int64_t updated = unit.extent(unit.held.states);
    const auto weight = static_cast<double>(as_bytes(updated, layout_.compute));
    const double moved =
        static_cast<double>(as_bytes(updated, layout_.grad)) + weight * (layout_.has_master(unit) ? 1 : 2);
    return {What::optimizer, u, bytes, moved / link_};
  }
  // Only sums over several windows cross the link again beside an update on the host, which would fetch the gradient.
  OffloadCandidate grad(size_t u) const {
    const optimizer::Unit& unit = layout_.units.units[u];
    const uint64_t bytes = unit.trained ? as_bytes(unit.extent(unit.held.grads), layout_.grad) : 0;
    return {What::grad, u, bytes, 2.0 * (windows_ - 1) * static_cast<double>(bytes) / link_};
  }
  // The weight goes up for each forward and backward; the update on the host need not send it up.
  OffloadCandidate weight(size_t u) const {
    const optimizer::Unit& unit = layout_.units.units[u];
    const uint64_t bytes = core::form_bytes(layout_.weight_form(unit), unit.extent(unit.held.weights));
    const int64_t updated = unit.trained ? unit.extent(unit.held.states) : 0;
    const double saved = static_cast<double>(as_bytes(updated, layout_.compute));
    return {What::weight, u, bytes, std::max(0.0, 2.0 * passes_ * static_cast<double>(bytes) - saved) / link_};
  }
  OffloadCandidate activations(size_t b) const {
    const uint64_t bytes = kept_bytes(b, true);
    return {What::activations, b, bytes, 2.0 * layout_.microbatches * static_cast<double>(bytes) / alive_ / link_};
  }
  OffloadCandidate recompute(size_t b) const {
    const models::Shape shape = layout_.shape(models::Mode::train, b);
    const BlockCost cost = block_cost(*layout_.model->blocks[b], shape, false, cluster_);
    return {What::recompute, b, kept_bytes(b, false), cost.forward_seconds * layout_.microbatches};
  }

 private:
  // Counts what a block saves, and with `input` what the one before it hands on.
  uint64_t kept_bytes(size_t b, bool input) const {
    const core::OnPlace here({layout_.device, nullptr});  // blocks' sizes depend on it
    const models::Shape shape = layout_.shape(models::Mode::train, b);
    uint64_t bytes = models::lay_out_saved(*layout_.model->blocks[b], shape, models::all_parts);
    const models::Model& model = *layout_.model;
    if (input && !model.embeds(b)) {
      const int64_t width = model.receives(b) ? model.input_width(b) : model.blocks[b - 1]->output_width();
      bytes += as_bytes(shape.rows() * width, shape.type);
    }
    return bytes * alive_;
  }

  const Layout& layout_;
  const Cluster& cluster_;
  double link_ = 1;
  uint32_t alive_ = 1;  // microbatches whose activations are kept at a time
  uint32_t passes_ = 1, windows_ = 1;
};

class PlacementSearch {
 public:
  PlacementSearch(const FitProblem& problem, const Layout& layout)
      : problem_(problem), base_(layout), order_(offload_order(layout, problem.cluster)) {
    base_.placement.units.resize(base_.units.units.size());
    base_.placement.activations.resize(base_.model->blocks.size(), Tier::device);
  }

  Layout run() {
    const size_t all = order_.size();
    if (!holds(all, 0, Tier::device)) return with(all, 0);
    const size_t left = fewest(all, [&](size_t n) { return holds(n, 0, Tier::device); });
    if (problem_.config.memory.nvme_path.empty() || holds(left, 0, Tier::host)) return with(left, 0);
    // Copies from a file are longer on their way, so that more may be on the device at a time.
    const auto with_file = [&](const auto& expected) {
      const size_t more = fewest(all, [&](size_t n) { return n >= left && holds(n, expected(n), Tier::device); });
      return std::pair(more, fewest(moved(more).size(), [&](size_t n) { return holds(more, n, Tier::host); }));
    };
    const auto [n, on_file] = with_file([&](size_t candidates) { return expected_on_file(candidates); });
    if (holds(n, on_file, Tier::device)) return with(n, on_file);
    const auto everything = [&](size_t candidates) { return moved(candidates).size(); };
    const auto [most, of_these] = with_file(everything);
    const bool only_there = !holds(most, of_these, Tier::device) && holds(most, everything(most), Tier::device);
    return with(most, only_there ? everything(most) : of_these);
  }

  Layout least() {
    const size_t all = order_.size(), most = moved(all).size();
    if (problem_.config.memory.nvme_path.empty() || holds(all, 0, Tier::host)) return with(all, 0);
    size_t on_file = expected_on_file(all);
    while (on_file < most && !holds(all, on_file, Tier::host)) on_file = std::min(most, on_file + 1 + on_file / 8);
    return with(all, on_file);
  }

 private:
  // Says whether a tier holds what it has when `left` candidates have left and `on_file` of them are on NVMe.
  bool holds(size_t left, size_t on_file, Tier tier) {
    const auto [found, added] = peaks_.try_emplace({left, on_file});
    if (added) found->second = problem_.peaks(with(left, on_file));
    const auto t = static_cast<size_t>(tier);
    return !problem_.limits.tiers[t] || found->second[t] <= problem_.limits.tiers[t]->bytes;
  }

  // Estimates how many go on to NVMe for the host to hold the rest, by their bytes and what the host needs when it
  // keeps none of them.
  size_t expected_on_file(size_t left) {
    const std::vector<OffloadCandidate> all = moved(left);
    const size_t most = moved(order_.size()).size();
    constexpr auto host = static_cast<size_t>(Tier::host);
    if (!problem_.limits.tiers[host] || !holds(order_.size(), most, Tier::host)) return all.size();
    uint64_t room = problem_.limits.tiers[host]->bytes - peaks_.at({order_.size(), most})[host];
    size_t on_file = all.size();
    while (on_file > 0 && all[on_file - 1].bytes <= room) room -= all[--on_file].bytes;
    return on_file;
  }

  // The smallest number up to `most` for which `enough` holds, where more is never worse; `most` if there is none.
  template <class Enough>
  static size_t fewest(size_t most, Enough enough) {
    size_t low = 0, high = most;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (enough(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Returns those of the first `left` that move, in the order in which they go on to the NVMe tier: what is touched
  // once a step before what every microbatch needs.
  std::vector<OffloadCandidate> moved(size_t left) const {
    std::vector<OffloadCandidate> all(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(left));
    std::erase_if(all, [](const OffloadCandidate& candidate) { return candidate.what == What::recompute; });
    std::stable_sort(all.begin(), all.end(),
                     [](const OffloadCandidate& a, const OffloadCandidate& b) { return a.what < b.what; });
    return all;
  }

  Layout with(size_t left, size_t on_file) const {
    Layout layout = base_;
    Placement& placement = layout.placement;
    size_t number = 0;
    for (const OffloadCandidate& candidate : moved(left)) {
      leave(layout, candidate, number++ < on_file ? Tier::nvme : Tier::host);
    }
    for (size_t i = 0; i < left; ++i) {
      if (order_[i].what != What::recompute) continue;
      placement.recompute.resize(layout.model->blocks.size(), Recompute::none);
      placement.recompute[order_[i].index] = Recompute::full;
    }
    place_updates(problem_.config.memory.update, layout, placement);
    return layout;
  }

  const FitProblem& problem_;
  Layout base_;
  const std::vector<OffloadCandidate> order_;
  std::map<std::pair<size_t, size_t>, TierBytes> peaks_;  // by candidates that have left, and by those on NVMe
};

}  // namespace

std::vector<OffloadCandidate> offload_order(const Layout& layout, const Cluster& cluster) {
  const Prices prices(layout, cluster);
  std::vector<OffloadCandidate> order;
  if (layout.open_placement) {
    // Units go from the last to the first: of what the last blocks need, less is moved, because their backward comes
    // soon.
    for (size_t u = layout.units.units.size(); u-- > 0;) {
      const UnitTiers tiers = layout.placement.tiers(u);
      const OffloadCandidate optimizer = prices.optimizer(u);
      const bool there = tiers.master == Tier::device && std::all_of(tiers.states.begin(), tiers.states.end(),
                                                                     [](Tier tier) { return tier == Tier::device; });
      if (there && optimizer.bytes > 0) order.push_back(optimizer);
      // Gradients do not leave before the optimizer's states: without an update on the host they would come up again.
      OffloadCandidate grad = prices.grad(u);
      grad.seconds =
          std::max(grad.seconds, optimizer.bytes > 0 ? optimizer.price() * static_cast<double>(grad.bytes) : 0);
      if (tiers.grad == Tier::device && layout.units.units[u].trained) order.push_back(grad);
      if (tiers.weight == Tier::device) order.push_back(prices.weight(u));
    }
  }
  // Layers go from the first on: its activations are needed last.
  for (size_t block : layer_blocks(*layout.model)) {
    if (layout.placement.activation(block) != Tier::device || layout.placement.keeps(block) > Recompute::none) continue;
    const OffloadCandidate moved = prices.activations(block), again = prices.recompute(block);
    const bool recompute = layout.open_recompute && (!layout.open_placement || again.price() <= moved.price());
    if (recompute || (layout.open_placement && layout.open_activations)) order.push_back(recompute ? again : moved);
  }
  std::stable_sort(order.begin(), order.end(), [](const OffloadCandidate& a, const OffloadCandidate& b) {
    return a.price() != b.price() ? a.price() < b.price() : a.what < b.what;
  });
  return order;
}

Layout cheapest_offload(const FitProblem& problem, const Layout& start) {
  return PlacementSearch(problem, start).run();
}

Layout states_offload(const FitProblem& problem, const Layout& start) {
  Layout layout = start;
  layout.placement.units.resize(layout.units.units.size());
  for (const OffloadCandidate& candidate : offload_order(layout, problem.cluster)) {
    if (candidate.what < What::activations) leave(layout, candidate, Tier::host);
  }
  layout.open_placement = false;
  layout = PlacementSearch(problem, layout).run();
  layout.open_placement = start.open_placement;
  return layout;
}

Layout least_offload(const FitProblem& problem, const Layout& start) {
  return PlacementSearch(problem, start).least();
}

uint64_t state_bytes(const Layout& layout) {
  uint64_t bytes = 0;
  for (const optimizer::Unit& unit : layout.units.units) {
    bytes += core::form_bytes(layout.weight_form(unit), unit.extent(unit.held.weights));
    if (!unit.trained) continue;
    // Updates that follow their gradients closely need not keep these.
    if (!layout.early_updates()) bytes += as_bytes(unit.extent(unit.held.grads), layout.grad);
    if (layout.has_master(unit)) bytes += as_bytes(unit.extent(unit.held.states), core::DType::f32);
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) bytes += kind.bytes_of(unit);
  }
  return bytes;
}

}  // namespace zrt::runtime
