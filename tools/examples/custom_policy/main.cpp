// Plans a configuration without and with the policy, and says what a step takes and where updates run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "activations_only.h"
#include "core/error.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"

namespace {

struct Outcome {
  double seconds = 0;
  long updates_on_host = 0;
};

Outcome plan(const zrt::runtime::Config& config) {
  const zrt::models::Model model = config.model.make();
  const auto cluster = zrt::runtime::find_cluster(config.parallel.cluster);
  const auto made = zrt::runtime::make_plan(config, model, zrt::runtime::training_phases(config, "init"), cluster);
  const auto& units = made.layout().placement.units;
  return {made.stages.front().step->seconds, std::count_if(units.begin(), units.end(), [](const auto& tiers) {
            return tiers.update == zrt::runtime::Tier::host;
          })};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: custom_policy CONFIG RANKS\n");
    return 2;
  }
  try {
    const auto config = zrt::runtime::load_config(argv[1], {}, std::atoi(argv[2]));
    const Outcome before = plan(config);
    add_activations_only();
    const Outcome after = plan(config);
    std::printf("a step: %.3g s with %ld updates on the host; with activations only %.3g s with %ld\n", before.seconds,
                before.updates_on_host, after.seconds, after.updates_on_host);
    return after.seconds < before.seconds ? 0 : 1;
  } catch (const zrt::core::Error& error) {
    std::fprintf(stderr, "custom_policy: %s\n", error.what());
    return 1;
  }
}
