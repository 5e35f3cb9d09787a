#include "runtime/plan/kept_outputs.h"

#include <algorithm>

#include "core/device.h"
#include "runtime/program/placement_rules.h"

namespace zrt::runtime {
namespace {

constexpr auto device = static_cast<size_t>(core::Tier::device);

Layout with_outputs(const Layout& layout, const std::vector<size_t>& blocks, size_t last) {
  Layout changed = layout;
  changed.placement.recompute.resize(layout.model->blocks.size(), Recompute::none);
  for (size_t i = blocks.size() - last; i < blocks.size(); ++i) {
    changed.placement.recompute[blocks[i]] = Recompute::never;
  }
  return changed;
}

// Returns the bytes that a block keeps in addition for each microbatch.
uint64_t outputs_of(const Layout& layout, size_t block) {
  const core::OnPlace here({layout.device, nullptr});  // a GPU's products may keep some of it anyway
  const models::Block& of = *layout.model->blocks[block];
  models::Shape shape = layout.shape(models::Mode::train, block);
  const uint64_t without = models::lay_out_saved(of, shape, models::all_parts);
  shape.keeps_outputs = true;
  return models::lay_out_saved(of, shape, models::all_parts) - without;
}

}  // namespace

bool keep_outputs(Compiled& stage, const std::vector<std::string>& phases, const Limits& limits,
                  const std::function<bool(const TierBytes&)>& holds) {
  const Layout layout = stage.layout;
  const bool trains = std::find(phases.begin(), phases.end(), "step") != phases.end();
  const TierBytes peaks = peak_bytes(stage.plan);
  if (!trains || !layout.open_recompute || !limits.tiers[device] || !holds(peaks)) return false;
  std::vector<size_t> blocks;
  for (size_t block : layer_blocks(*layout.model)) {
    if (layout.placement.activation(block) != core::Tier::device || layout.placement.keeps(block) != Recompute::none) {
      continue;
    }
    if (outputs_of(layout, block) > 0) blocks.push_back(block);
  }
  // A layer may need hardly more: what it keeps it need not have room for in its workspace.
  const uint64_t room = limits.tiers[device]->bytes - peaks[device];
  if (blocks.empty() || room == 0) return false;
  size_t fits = 0, fails = blocks.size() + 1, next = blocks.size();
  while (fits + 1 < fails) {
    Compiled more = compile(with_outputs(layout, blocks, next), phases, {}, false);
    const TierBytes needed = peak_bytes(more.plan);
    if (holds(needed)) {
      stage = std::move(more);
      fits = next++;
      continue;
    }
    // A layer adds about as much as any other.
    fails = next;
    const double more_bytes = static_cast<double>(needed[device]) - static_cast<double>(peaks[device]);
    const double each = more_bytes / static_cast<double>(next);
    const auto expected = static_cast<size_t>(static_cast<double>(room) / std::max(each, 1.0));
    next = std::clamp(expected, fits + 1, std::max(fits + 1, fails - 1));
  }
  return fits > 0;
}

}  // namespace zrt::runtime
