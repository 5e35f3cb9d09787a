// Plans a configuration without and with the pass, and says what it saves.
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "late_gathers.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"

namespace {

unsigned long long device_bytes(const zrt::runtime::Config& config) {
  const zrt::models::Model model = config.model.make();
  const auto plan = zrt::runtime::make_plan(config, model, zrt::runtime::training_phases(config, "init"), {});
  return plan.stages.front().compiled.plan.device().peak_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: custom_pass CONFIG RANKS\n");
    return 2;
  }
  try {
    const auto config = zrt::runtime::load_config(argv[1], {}, std::atoi(argv[2]));
    const unsigned long long before = device_bytes(config);
    add_late_gathers();
    const unsigned long long after = device_bytes(config);
    std::printf("a rank's device memory: %llu bytes, with late gathers %llu\n", before, after);
    return after < before ? 0 : 1;
  } catch (const zrt::core::Error& error) {
    std::fprintf(stderr, "custom_pass: %s\n", error.what());
    return 1;
  }
}
