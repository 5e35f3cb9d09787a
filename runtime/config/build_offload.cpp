#include "runtime/config/offload.h"

namespace zrt::runtime::configuration {
namespace {

using core::Tier;

// Returns none where states stay where they are.
std::optional<Tier> offload_tier(const Values& values, const Value& device) {
  const std::string name = values.choice(device.path);
  if (name == "none") return std::nullopt;
  return name == "cpu" ? Tier::host : Tier::nvme;
}

PlacementRule rule_of(const Value& key, std::vector<std::string> states, Tier tier) {
  PlacementRule rule;
  rule.from = shown(key);
  rule.states = std::move(states);
  rule.tier = tier;
  rule.must_match = false;
  return rule;
}

void offload_optimizer(Values& values, int stage, std::vector<PlacementRule>& rules) {
  const std::string section = "zero_optimization.offload_optimizer";
  const Value& device = values.at(section + ".device");
  const double share = values.real(section + ".ratio");
  const auto tier = offload_tier(values, device);
  if (!tier && share != 1) {
    values.warnings.push_back(shown(values.at(section + ".ratio")) + " has no effect: " + shown(device) +
                              ", so no states are offloaded.");
  }
  if (!tier) return;
  if (stage == 0) {
    refuse(device,
           "belongs to zero_optimization.stage 1 to 3. Choose one of them; or keep optimizer states elsewhere at stage "
           "0 by memory.placement.");
  }
  // The numbers that an update reads and writes lie beside it; gradients wait in the host's memory even for states on
  // NVMe.
  rules.push_back(rule_of(device, {"master", "moments"}, *tier));
  rules.back().share = share;
  rules.push_back(rule_of(device, {"grad"}, Tier::host));
  rules.back().share = share;
}

void offload_param(Values& values, int stage, std::vector<PlacementRule>& rules) {
  const std::string section = "zero_optimization.offload_param";
  const Value& device = values.at(section + ".device");
  const auto tier = offload_tier(values, device);
  if (!tier) return;
  if (stage != 3) return warn_without_effect(values, device);
  rules.push_back(rule_of(device, {"weight"}, *tier));
  // DeepSpeed's default would keep the first 10⁹ elements of a rank off the drive that was asked for.
  const Value& in_cpu = values.at(section + ".max_in_cpu");
  if (*tier != Tier::nvme) return;
  if (!values.given(in_cpu.path)) return values.infer(in_cpu.path, 0);
  rules.push_back(rule_of(in_cpu, {"weight"}, Tier::host));
  rules.back().elements = values.integer(in_cpu.path);
}

}  // namespace

std::vector<PlacementRule> offload_rules(Values& values, int stage) {
  std::vector<PlacementRule> rules;
  values.check([&] { offload_optimizer(values, stage, rules); });
  values.check([&] { offload_param(values, stage, rules); });
  const Value& checkpoints = values.at("activation_checkpointing.cpu_checkpointing");
  if (checkpoints.value == true) rules.push_back(rule_of(checkpoints, {"activations"}, Tier::host));
  return rules;
}

}  // namespace zrt::runtime::configuration
