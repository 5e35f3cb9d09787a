#include "runtime/config/placement.h"

#include <algorithm>

namespace zrt::runtime {

bool Placement::uses(Tier tier) const {
  const auto is = [&](Tier resident) { return resident == tier; };
  return std::any_of(activations.begin(), activations.end(), is) ||
         std::any_of(units.begin(), units.end(), [&](const UnitTiers& tiers) {
           return is(tiers.weight) || is(tiers.grad) || is(tiers.master) || is(tiers.update) ||
                  std::any_of(tiers.states.begin(), tiers.states.end(), is);
         });
}

bool Placement::moves() const {
  return uses(Tier::host) || uses(Tier::nvme);
}

}  // namespace zrt::runtime
