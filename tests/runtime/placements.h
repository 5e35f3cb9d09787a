// Placements for tests.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/philox.h"
#include "runtime/program/layout.h"

namespace zrt::testing {

using Placing = std::function<runtime::Placement(const runtime::Layout&)>;

inline size_t kinds_of(const runtime::Layout& layout, size_t unit) {
  return layout.optimizer->states(layout.units.units[unit]).size();
}

// Every unit with these tiers; all kinds of the optimizer's states with one.
inline runtime::Placement uniform(const runtime::Layout& layout, core::Tier weight, core::Tier grad, core::Tier master,
                                  core::Tier states, core::Tier activations, core::Tier update) {
  runtime::Placement placement;
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    placement.units.push_back({weight, grad, master, std::vector(kinds_of(layout, u), states), update});
  }
  placement.activations.assign(layout.model->blocks.size(), activations);
  return placement;
}

// All states in one tier; gradients of states on NVMe wait on the host. Weights and activations stay on the device.
inline Placing all_in(core::Tier tier, core::Tier update) {
  return [=](const runtime::Layout& layout) {
    using core::Tier;
    return uniform(layout, Tier::device, tier == Tier::nvme ? Tier::host : tier, tier, tier, Tier::device, update);
  };
}

// The same tiers, but what ranks exchange something for is updated on the device.
inline Placing with_exchanges_on_the_device(const Placing& place) {
  return [place](const runtime::Layout& layout) {
    runtime::Placement placement = place(layout);
    for (size_t u = 0; u < placement.units.size(); ++u) {
      if (layout.optimizer->exchanges(layout.units.units[u])) placement.units[u].update = core::Tier::device;
    }
    return placement;
  };
}

struct NamedPlacing {
  std::string name;
  Placing place;
};

// Resident tiers drawn for every unit, kind and block.
inline NamedPlacing scattered(uint64_t seed) {
  return {"scattered " + std::to_string(seed), [seed](const runtime::Layout& layout) {
            using core::Tier;
            uint64_t number = 0;
            const auto word = [&] { return core::random_word({seed, 0, 0}, number++); };
            const auto tier = [&] { return static_cast<Tier>(word() % 3); };
            runtime::Placement placement;
            for (size_t u = 0; u < layout.units.units.size(); ++u) {
              runtime::UnitTiers tiers{tier(), tier(), tier(), {}, word() % 2 ? Tier::host : Tier::device};
              for (size_t k = 0; k < kinds_of(layout, u); ++k) tiers.states.push_back(tier());
              placement.units.push_back(tiers);
            }
            for (size_t b = 0; b < layout.model->blocks.size(); ++b) placement.activations.push_back(tier());
            return placement;
          }};
}

inline std::vector<NamedPlacing> placings() {
  using core::Tier;
  constexpr Tier device = Tier::device, host = Tier::host, nvme = Tier::nvme;
  const auto fixed = [](std::string name, Tier weight, Tier grad, Tier master, Tier states, Tier activations,
                        Tier update) {
    return NamedPlacing{std::move(name), [=](const runtime::Layout& layout) {
                          return uniform(layout, weight, grad, master, states, activations, update);
                        }};
  };
  return {
      fixed("all on the host", host, host, host, host, host, host),
      fixed("all on the host, updated on the device", host, host, host, host, host, device),
      fixed("all on NVMe", nvme, nvme, nvme, nvme, nvme, host),
      fixed("all on NVMe, updated on the device", nvme, nvme, nvme, nvme, nvme, device),
      fixed("optimizer on the host", device, device, host, host, device, host),
      fixed("optimizer on NVMe, gradients on the host", device, host, nvme, nvme, device, host),
      fixed("weights on the host", host, device, device, device, device, device),
      fixed("moments on NVMe, master on the device", device, device, device, nvme, device, device),
      fixed("activations on the host", device, device, device, device, host, device),
      fixed("activations on NVMe", device, device, device, device, nvme, device),
      scattered(1),
      scattered(2),
      scattered(3),
  };
}

}  // namespace zrt::testing
