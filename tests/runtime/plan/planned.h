// A small model and its plan, with keys set.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"

namespace zrt::testing {

using namespace runtime;

inline constexpr const char* plan_base =
    R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW"}, "memory": {"unit_bytes": 1048576, "placement": "device", "recompute": "none"},
  "model": {"type": "gpt2", "layers": 4, "hidden": 256, "heads": 4, "sequence": 128, "vocab": 2048, "tied": true}})";

// A plan and what it refers to.
struct Planned {
  Config config;
  models::Model model;
  Plan plan;
};

inline std::unique_ptr<Planned> planned(const std::vector<std::string>& sets, int ranks,
                                        const std::optional<Cluster>& cluster = {}) {
  auto p = std::make_unique<Planned>();
  p->config = parse_config(plan_base, "plan.json", sets, ranks);
  p->model = p->config.model.make();
  p->plan = make_plan(p->config, p->model, training_phases(p->config, "init"), cluster);
  return p;
}

}  // namespace zrt::testing
