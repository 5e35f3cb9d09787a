// The configuration says what memory holds where: budgets, placements, rules, updates and recomputation.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/model.h"
#include "optimizer/unit.h"
#include "tests/runtime/config/config_helpers.h"
#include "tests/runtime/config/memory_helpers.h"

namespace zrt::config_memory_test {

using namespace zrt::runtime;
using zrt::core::Tier;
using Names = std::vector<std::string>;

namespace {

std::string memory_error(const std::string& keys) {
  return parse_error(R"("memory": {)" + keys + "},");
}

}  // namespace

TEST_CASE("without a word about memory everything is left to the device and nothing is limited") {
  const MemoryConfig none = parsed("").memory;
  CHECK(none.rules.empty());
  CHECK(none.open_placement);
  CHECK(none.open_recompute);
  CHECK(none.recompute == Recompute::none);
  CHECK(none.update == UpdateSide::automatic);
  CHECK(none.order == MicrobatchOrder::automatic);
  CHECK(none.nvme_path.empty());
  CHECK(!none.nvme_budget_bytes);
  CHECK(!none.link_bytes_per_second);
}

TEST_CASE("budgets, the folder of the nvme tier and the speed of the link are read") {
  const MemoryConfig all = memory(R"("device_budget_bytes": 1, "host_budget_bytes": 2, "nvme_budget_bytes": 3e9,
    "nvme_path": "scratch", "link_bytes_per_second": 4)");
  CHECK(all.device_budget_bytes == 1);
  CHECK(all.host_budget_bytes == 2);
  CHECK(all.nvme_budget_bytes == 3000000000);
  CHECK(all.nvme_path == "scratch");
  CHECK(all.link_bytes_per_second == 4);
  CHECK(has(memory_error(R"("nvme_budget_bytes": 0)"), "memory.nvme_budget_bytes = 0 (ds.json:1)"));
  CHECK(has(memory_error(R"("nvme_budget_bytes": 5)"), "memory.nvme_budget_bytes = 5 (ds.json:1) needs a folder"));
  CHECK(has(memory_error(R"("nvme_path": "")"), "memory.nvme_path = \"\" (ds.json:1) is no folder"));
  CHECK(has(memory_error(R"("link_bytes_per_second": 0)"), "memory.link_bytes_per_second = 0"));
  CHECK(has(parse_error(R"("memory": {"link_bytes_per_second": 9}, "run": {"device": "cuda"},)"),
            "memory.link_bytes_per_second = 9 (ds.json:1) paces transfers"));
}

TEST_CASE("a placement by name moves all states or none") {
  const MemoryConfig device = memory(R"("placement": "device")");
  CHECK(device.rules.empty());
  CHECK(!device.open_placement);
  CHECK(memory(R"("placement": "auto")").open_placement);
  const MemoryConfig host = memory(R"("placement": "host")");
  REQUIRE(host.rules.size() == 1);
  CHECK(!host.open_placement);
  CHECK(host.rules[0].tier == Tier::host);
  CHECK(host.rules[0].states == Names{"weight", "grad", "master", "moments"});
  const MemoryConfig nvme = memory(R"("placement": "nvme", "nvme_path": "x")");
  REQUIRE(nvme.rules.size() == 1);
  CHECK(nvme.rules[0].tier == Tier::nvme);
  CHECK(has(memory_error(R"("placement": "nvme")"), "memory.placement = \"nvme\" (ds.json:1) needs a folder"));
  CHECK(has(memory_error(R"("placement": "hots")"), "legal: \"auto\", \"device\", \"host\", \"nvme\" or a list"));
  CHECK(has(memory_error(R"("placement": null)"), "\"nvme\" or a list"));
  CHECK(parsed("", {"memory.placement=host"}).memory.rules.size() == 1);
}

TEST_CASE("rules of placement are read in their order") {
  const MemoryConfig several = memory(R"("placement": [
    {"layers": [0, 11], "states": ["master", "exp_avg"], "tier": "host"},
    {"parameters": "h.3.*", "states": ["weight"], "tier": "device"},
    {"layers": 4, "states": ["activations"], "tier": "host"},
    {"states": ["grad"], "tier": "nvme"}], "nvme_path": "x")");
  CHECK(!several.open_placement);
  REQUIRE(several.rules.size() == 4);
  CHECK(several.rules[0].layers == LayerRange{0, 11});
  CHECK(several.rules[0].states == Names{"master", "exp_avg"});
  CHECK(several.rules[0].tier == Tier::host);
  CHECK(several.rules[0].must_match);
  CHECK(has(several.rules[0].from, "memory.placement[0] = {\"layers\":[0,11]"));
  CHECK(several.rules[1].parameters == "h.3.*");
  CHECK(!several.rules[1].layers);
  CHECK(several.rules[2].layers == LayerRange{4, 4});
  CHECK(several.rules[3].tier == Tier::nvme);
}

TEST_CASE("a rule of placement that is malformed is refused by its number") {
  const auto refused = [](const std::string& rule, const char* part) {
    const std::string error = memory_error(R"("placement": [{"states": ["grad"], "tier": "host"}, )" + rule + "]");
    INFO(rule);
    CHECK(has(error, "memory.placement[1] = "));
    CHECK(has(error, "(ds.json:1)"));
    CHECK(has(error, part));
  };
  refused("5", "is no rule");
  refused(R"({"layer": 3, "states": ["grad"], "tier": "host"})", "Did you mean \"layers\"?");
  refused(R"({"layers": 1, "parameters": "h.*", "states": ["grad"], "tier": "host"})", "both layers and parameters");
  for (const char* layers : {"[3, 1]", "[-1, 1]", "-1", "[1]", "[1, 2, 3]", "\"1\"", "1.5", "null", "[0, 1.5]"}) {
    refused(R"({"layers": )" + std::string(layers) + R"(, "states": ["grad"], "tier": "host"})", "[first, last]");
  }
  for (const char* parameters : {"\"\"", "5", "null", "[\"h.*\"]"}) {
    refused(R"({"parameters": )" + std::string(parameters) + R"(, "states": ["grad"], "tier": "host"})", "a pattern");
  }
  for (const char* states : {"[]", "\"grad\"", "[5]", "[\"\"]", "null"}) {
    refused(R"({"states": )" + std::string(states) + R"(, "tier": "host"})", "needs states");
  }
  refused(R"({"tier": "host"})", "needs states");
  for (const char* tier : {"\"hots\"", "5", "null"}) {
    refused(R"({"states": ["grad"], "tier": )" + std::string(tier) + "}", "needs a tier");
  }
  refused(R"({"states": ["grad"]})", "needs a tier");
  refused(R"({"parameters": "h.*", "states": ["activations"], "tier": "host"})", "belong to layers");
  refused(R"({"states": ["grad"], "tier": "nvme"})", "needs a folder");
}

TEST_CASE("the side of updates, recomputation and the order of microbatches are read") {
  CHECK(memory(R"("update": "device")").update == UpdateSide::device);
  CHECK(memory(R"("update": "host")").update == UpdateSide::host);
  CHECK(memory(R"("update": "auto")").update == UpdateSide::automatic);
  CHECK(has(memory_error(R"("update": "nvme")"), "memory.update = \"nvme\" (ds.json:1)"));

  CHECK(memory(R"("update_when": "after_norm")").update_when == UpdateWhen::after_norm);
  CHECK(has(memory_error(R"("update_when": "early")"), "legal: \"after_norm\", \"as_ready\" or \"next_forward\""));
  CHECK(memory(R"("update_when": "next_forward")").update_when == UpdateWhen::next_forward);

  CHECK(memory(R"("recompute": "none")").recompute == Recompute::none);
  CHECK(!memory(R"("recompute": "none")").open_recompute);
  CHECK(memory(R"("recompute": "selective")").recompute == Recompute::selective);
  CHECK(memory(R"("recompute": "full")").recompute == Recompute::full);
  CHECK(memory(R"("recompute": "auto")").open_recompute);
  const MemoryConfig some = memory(R"("recompute": [0, [2, 3]])");
  CHECK(some.recompute == Recompute::full);
  CHECK(some.recompute_layers == std::vector<LayerRange>{{0, 0}, {2, 3}});
  CHECK(!some.open_recompute);
  CHECK(memory(R"("recompute": [])").recompute == Recompute::none);
  CHECK(has(memory_error(R"("recompute": [[3, 2]])"), "memory.recompute = [[3,2]] (ds.json:1)"));
  CHECK(has(memory_error(R"("recompute": ["0"])"), "must list layers"));
  CHECK(has(memory_error(R"("recompute": "some")"), "\"selective\", \"full\" or a list"));

  CHECK(memory(R"("microbatch_order": "layer_major")").order == MicrobatchOrder::layer_major);
  CHECK(memory(R"("microbatch_order": "microbatch_major")").order == MicrobatchOrder::microbatch_major);
  CHECK(has(memory_error(R"("microbatch_order": "layers")"), "memory.microbatch_order = \"layers\""));
  // All of a step is one window in layer-major order, unless the window is given.
  const std::string more = R"("gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 1,
                              "zero_optimization": {"stage": 3}, "memory": {"microbatch_order": )";
  CHECK(parsed(more + R"("auto"},)").parallel.reduce_every == 1);
  CHECK(parsed(more + R"("layer_major"},)").parallel.reduce_every == 4);
  CHECK(parsed(more + R"("layer_major"}, "parallel": {"reduce_every": 2},)").parallel.reduce_every == 2);
}

TEST_CASE("layers that are on the device at a time are read, and refused with what says otherwise") {
  CHECK(memory("").sliding.layers == 0);
  const MemoryConfig one = memory(R"("device_layers": 3)");
  CHECK((one.sliding.layers == 3 && one.sliding.together == 1));
  CHECK(one.open_placement);
  const MemoryConfig two = memory(R"("device_layers": 3, "moved_layers": 3)");
  CHECK((two.sliding.layers == 3 && two.sliding.together == 3));
  const auto says = [](const std::string& keys, const std::string& key, const std::string& why) {
    const std::string error = memory_error(keys);
    INFO(keys << ": " << error);
    CHECK(error.find(key) != std::string::npos);
    CHECK(error.find(why) != std::string::npos);
  };
  says(R"("device_layers": 0)", "memory.device_layers = 0", "legal: 1 to 2048");
  says(R"("device_layers": 3, "moved_layers": 0)", "memory.moved_layers = 0", "legal: 1 to 2048");
  says(R"("device_layers": 3, "moved_layers": 4)", "memory.moved_layers = 4", "legal are 1 to 3");
  says(R"("device_layers": 3, "placement": "device")", "memory.device_layers = 3", "memory.placement = \"device\"");
  says(R"("device_layers": 3}, "parallel": {"pipeline": 2)", "memory.device_layers = 3", "parallel.pipeline to 1");
  const Config none = parsed(R"("memory": {"moved_layers": 2},)");
  CHECK(std::any_of(none.warnings.begin(), none.warnings.end(), [](const std::string& warning) {
    return warning.rfind("memory.moved_layers = 2 (ds.json:1) has no effect", 0) == 0;
  }));
  CHECK(none.memory.sliding.layers == 0);
}

TEST_CASE("updates as soon as gradients are there are refused with what needs the norm first") {
  const std::string ready = R"("memory": {"update_when": "as_ready"},)", unclipped = R"("gradient_clipping": 0,)";
  CHECK(parsed(ready + unclipped).memory.update_when == UpdateWhen::as_ready);
  CHECK(parsed(ready + unclipped + R"("fp16": {"enabled": true, "loss_scale": 128},)").memory.update_when ==
        UpdateWhen::as_ready);
  const auto refused = [&](const std::string& more, const char* part) {
    const std::string error = parse_error(ready + more);
    CHECK(has(error, "memory.update_when = \"as_ready\" (ds.json:1)"));
    CHECK(has(error, "memory.update_when to \"after_norm\""));
    CHECK(has(error, part));
  };
  refused("", "gradient_clipping = 1.0 (the default)");
  refused(R"("gradient_clipping": 0.5,)", "Set gradient_clipping to 0");
  refused(unclipped + R"("fp16": {"enabled": true},)", "Set fp16.loss_scale to a fixed scale");
  refused(unclipped + R"("optimizer": {"type": "Adafactor"},)", "optimizer.type = \"Adafactor\" (ds.json:1)");
}

TEST_CASE("memory.moments is the form of every state of the optimizers that work element by element") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 8, .heads = 1, .sequence = 4, .vocab = 9});
  for (const char* type : {"Adam", "AdamW", "SGD", "Lion", "Muon"}) {
    for (const bool one : {false, true}) {
      const Config config = parsed(R"("memory": {"moments": ")" + std::string(one ? "int8" : "bf16") +
                                   R"("}, "optimizer": {"type": ")" + type + R"(", "params": {"lr": 0.1)" +
                                   (type == std::string("SGD") ? R"(, "momentum": 0.9)" : "") + "}},");
      const optimizer::OptimizerPtr optimizer = config.optimizer.algorithm;
      size_t states = 0;
      for (const optimizer::Unit& unit : optimizer::make_units(model, {}, 4096, {}, optimizer.get()).units) {
        for (const optimizer::UnitState& state : optimizer->states(unit)) {
          const bool first = state.category == core::Category::moment1;
          CAPTURE(type, unit.name, state.kind);
          CHECK(state.form == (!one ? core::Form::bf16 : first ? core::Form::signed8 : core::Form::unsigned8));
          ++states;
        }
      }
      CHECK(states > 0);
    }
  }
}

TEST_CASE("a run's placement is re-created from its resolved file") {
  const Config config = stage(3,
                              R"("offload_optimizer": {"device": "nvme", "nvme_path": "x", "ratio": 0.5},
    "cpu_offload_param": true)",
                              R"("train_batch_size": 2, "memory": {"recompute": [0, [2, 3]], "update": "device"},)");
  const auto file = std::filesystem::path(ZRT_BINARY_DIR) / "config_memory_round.json";
  std::ofstream(file) << resolved_json(config);
  const Config again = load_resolved(file);
  std::filesystem::remove(file);
  CHECK(resolved_json(again) == resolved_json(config));
  CHECK(again.warnings.empty());
  REQUIRE(again.memory.rules.size() == 3);
  CHECK(again.memory.rules[0].share == 0.5);
  CHECK(again.memory.recompute_layers == config.memory.recompute_layers);
  CHECK(again.memory.nvme_path == "x");

  // Runs of before had a line of their own for what was null.
  std::string older = resolved_json(config);
  older.insert(older.find("\"stage\""), R"("cpu_offload": {"value": null, "from": "default"}, )");
  std::ofstream(file) << older;
  CHECK(load_resolved(file).warnings.empty());
  std::filesystem::remove(file);
}

TEST_CASE("keys of pseudo_to_real that nothing reads are pointed out") {
  const auto warned = [](const std::string& section, const std::string& words) {
    const Config config = parsed(R"("pseudo_to_real": )" + section + ",");
    return std::any_of(config.warnings.begin(), config.warnings.end(),
                       [&](const std::string& warning) { return warning.find(words) != std::string::npos; });
  };
  CHECK(warned(R"({"delink": {"at_step": 3}})", "without pseudo_to_real.groups no layers share parameters"));
  CHECK(warned(R"({"groups": 1, "delink": {"plateau_gain": 0.1}})", "nothing looks for a plateau"));
  CHECK(!warned(R"({"groups": 1, "delink": {"plateau_steps": 5, "plateau_gain": 0.1}})", "has no effect"));
}

}  // namespace zrt::config_memory_test
