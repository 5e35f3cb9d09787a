#include "runtime/config/placement.h"

#include <algorithm>

namespace zrt::runtime {

bool Placement::uses(Tier tier) const {
  const auto is = [&](Tier home) { return home == tier; };
  return std::any_of(activations.begin(), activations.end(), is) ||
         std::any_of(units.begin(), units.end(), [&](const UnitHomes& homes) {
           return is(homes.weight) || is(homes.grad) || is(homes.master) || is(homes.update) ||
                  std::any_of(homes.states.begin(), homes.states.end(), is);
         });
}

bool Placement::moves() const {
  return uses(Tier::host) || uses(Tier::nvme);
}

}  // namespace zrt::runtime
