#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/model.h"
#include "optimizer/unit.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_memory_test {

using namespace zrt::runtime;
using zrt::core::Tier;
using Names = std::vector<std::string>;

namespace {

MemoryConfig memory(const std::string& keys) {
  return parsed(R"("memory": {)" + keys + "},").memory;
}

std::string memory_error(const std::string& keys) {
  return parse_error(R"("memory": {)" + keys + "},");
}

Config stage(int number, const std::string& keys, const std::string& more = "") {
  return parsed(R"("optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": )" + std::to_string(number) + ", " +
                keys + "}," + more);
}

std::string stage_error(int number, const std::string& keys, const std::string& more = "") {
  return error_of([&] { stage(number, keys, more); });
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

TEST_CASE("offload_optimizer keeps master and moments in its tier and gradients on the host, at stages 1 to 3") {
  for (int number = 1; number < 4; ++number) {
    const MemoryConfig cpu = stage(number, R"("offload_optimizer": {"device": "cpu", "ratio": 0.25})").memory;
    CHECK(cpu.open_placement);
    REQUIRE(cpu.rules.size() == 2);
    CHECK(cpu.rules[0].states == Names{"master", "moments"});
    CHECK(cpu.rules[0].tier == Tier::host);
    CHECK(cpu.rules[0].share == 0.25);
    CHECK(cpu.rules[1].states == Names{"grad"});
    CHECK(cpu.rules[1].tier == Tier::host);
    CHECK(cpu.rules[1].share == 0.25);
    // DeepSpeed takes it for "cpu" below stage 3.
    const MemoryConfig nvme = stage(number, R"("offload_optimizer": {"device": "nvme", "nvme_path": "x"})").memory;
    REQUIRE(nvme.rules.size() == 2);
    CHECK(nvme.rules[0].tier == Tier::nvme);
    CHECK(nvme.rules[0].share == 1);
    CHECK(nvme.rules[1].tier == Tier::host);
    CHECK(nvme.nvme_path == "x");
  }
  CHECK(stage(0, R"("offload_optimizer": {"device": "none"})").memory.rules.empty());
  CHECK(has(stage_error(0, R"("offload_optimizer": {"device": "cpu"})"),
            "zero_optimization.offload_optimizer.device = \"cpu\" (ds.json:1) belongs to"));
  CHECK(has(stage_error(1, R"("offload_optimizer": {"device": "gpu"})"), "\"none\", \"cpu\" or \"nvme\""));
  CHECK(has(stage_error(1, R"("offload_optimizer": {"device": "cpu", "ratio": 1.5})"), "ratio = 1.5"));
  CHECK(has(stage_error(1, R"("offload_optimizer": {"device": "nvme"})"), "needs a folder for the nvme tier"));
}

TEST_CASE("offload_param keeps weights in its tier, at stage 3 alone") {
  const MemoryConfig cpu = stage(3, R"("offload_param": {"device": "cpu", "max_in_cpu": 7})").memory;
  REQUIRE(cpu.rules.size() == 1);
  CHECK(cpu.rules[0].states == Names{"weight"});
  CHECK(cpu.rules[0].tier == Tier::host);
  CHECK(cpu.rules[0].elements == INT64_MAX);
  const MemoryConfig nvme = stage(3, R"("offload_param": {"device": "nvme", "nvme_path": "x"})").memory;
  REQUIRE(nvme.rules.size() == 1);
  CHECK(nvme.rules[0].tier == Tier::nvme);
  // Only where it is given: DeepSpeed's default would keep small models off the drive.
  const MemoryConfig part =
      stage(3, R"("offload_param": {"device": "nvme", "nvme_path": "x", "max_in_cpu": 7})").memory;
  REQUIRE(part.rules.size() == 2);
  CHECK(part.rules[1].states == Names{"weight"});
  CHECK(part.rules[1].tier == Tier::host);
  CHECK(part.rules[1].elements == 7);
  for (int number = 0; number < 3; ++number) {
    const Config ignored = stage(number, R"("offload_param": {"device": "cpu"})");
    CHECK(ignored.memory.rules.empty());
    CHECK(warned(ignored, "zero_optimization.offload_param.device = \"cpu\" (ds.json:1) has no effect: below"));
  }
}

TEST_CASE("a value that another key turns off is a warning that names both") {
  const std::string adam = R"("optimizer": {"type": "AdamW"}, )";
  const std::string sgd = R"("optimizer": {"type": "SGD", "params": {"lr": 1)";
  const std::string offload =
      adam + R"("zero_optimization": {"stage": 2, "offload_optimizer": {"ratio": 0.5, "device": )";
  for (const auto& [keys, warning] : std::vector<std::pair<std::string, std::string>>{
           {offload + R"("none"}},)",
            "offload_optimizer.ratio = 0.5 (ds.json:1) has no effect: zero_optimization.offload_optimizer.device"},
           {adam + R"("run": {"share_gpu": true},)", "run.share_gpu has no effect without"},
           {sgd + R"(, "dampening": 0.5}},)",
            "optimizer.params.dampening = 0.5 (ds.json:1) has no effect: SGD without optimizer.params.momentum"},
           {sgd + R"(}}, "memory": {"moments": "bf16"},)",
            "memory.moments = \"bf16\" (ds.json:1) has no effect: SGD without optimizer.params.momentum"}}) {
    CAPTURE(keys);
    CHECK(warned(parsed(keys), warning));
  }
  CHECK_FALSE(warned(parsed(offload + R"("cpu"}},)"), "ratio"));
  CHECK_FALSE(warned(parsed(sgd + R"(, "momentum": 0.5, "dampening": 0.5}},)"), "dampening"));
}

TEST_CASE("the folder of the nvme tier is memory.nvme_path, or what DeepSpeed's keys agree on") {
  const std::string optimizer = R"("offload_optimizer": {"device": "nvme", "nvme_path": "a"})";
  const auto param = [](const std::string& path) {
    return R"(, "offload_param": {"device": "nvme", "nvme_path": ")" + path + "\"}";
  };
  const Config same = stage(3, optimizer + param("a"));
  CHECK(same.memory.nvme_path == "a");
  CHECK(has(resolved_json(same), R"("nvme_path": {"value": "a", "from": "inferred"})"));
  CHECK(has(stage_error(3, optimizer + param("b")), "offload_param.nvme_path = \"b\" (ds.json:1) contradicts"));
  const Config own = stage(3, optimizer, R"("memory": {"nvme_path": "c"},)");
  CHECK(own.memory.nvme_path == "c");
  CHECK(warned(own, "offload_optimizer.nvme_path = \"a\" (ds.json:1) has no effect"));
  CHECK(reconfigured(same, {"zero_optimization.offload_optimizer.nvme_path=a"}, 1).memory.nvme_path == "a");
}

TEST_CASE("cpu_checkpointing keeps the activations of layers on the host and computes nothing again") {
  const Config config = parsed(R"("activation_checkpointing": {"cpu_checkpointing": true},)");
  REQUIRE(config.memory.rules.size() == 1);
  CHECK(config.memory.rules[0].states == Names{"activations"});
  CHECK(config.memory.rules[0].tier == Tier::host);
  CHECK(config.memory.recompute == Recompute::none);
  CHECK(!warned(config, "cpu_checkpointing"));
}

TEST_CASE("DeepSpeed's offload keys and a placement of one's own contradict each other, unless it is auto") {
  const std::string offload = R"("offload_optimizer": {"device": "cpu"})";
  for (const char* placement : {"\"device\"", "\"host\"", R"([{"states": ["grad"], "tier": "host"}])", "[]"}) {
    INFO(placement);
    const std::string error = stage_error(2, offload, R"("memory": {"placement": )" + std::string(placement) + "},");
    CHECK(has(error, "memory.placement = "));
    CHECK(has(error, "contradicts zero_optimization.offload_optimizer.device = \"cpu\" (ds.json:1)"));
  }
  CHECK(stage(2, offload, R"("memory": {"placement": "auto"},)").memory.rules.size() == 2);
  CHECK(has(parse_error(R"("activation_checkpointing": {"cpu_checkpointing": true}, "memory": {"placement": "host"},)"),
            "contradicts activation_checkpointing.cpu_checkpointing = true"));
}

TEST_CASE("the old forms of offload stand for the new ones, with a warning") {
  const Config old = stage(2, R"("cpu_offload": true)");
  CHECK(old.memory.rules.size() == 2);
  CHECK(old.warnings.size() == 1);
  CHECK(warned(old, "zero_optimization.cpu_offload (ds.json:1) is an old form of zero_optimization.offload_optimizer"));
  CHECK(has(resolved_json(old), R"("device": {"value": "cpu", "from": "file"})"));
  const Config set = parsed("", {"zero_optimization.stage=3", "zero_optimization.cpu_offload_param=yes"});
  REQUIRE(set.memory.rules.size() == 1);
  CHECK(set.memory.rules[0].states == Names{"weight"});
  CHECK(has(resolved_json(set), R"("device": {"value": "cpu", "from": "command line"})"));
  const Config off = stage(2, R"("cpu_offload": false)");
  CHECK(off.memory.rules.empty());
  CHECK(off.warnings.size() == 1);
  CHECK(has(stage_error(2, R"("cpu_offload": true, "offload_optimizer": {"device": "nvme"})"),
            "zero_optimization.cpu_offload (ds.json:1) and zero_optimization.offload_optimizer (ds.json:1)"));
  CHECK(has(stage_error(2, R"("cpu_offload": false, "offload_optimizer": {"device": "cpu"})"), "contradict"));
  CHECK(has(stage_error(2, R"("cpu_offload": 5)"), "zero_optimization.cpu_offload = 5"));
  CHECK(has(stage_error(0, R"("cpu_offload": true)"), "offload_optimizer.device = \"cpu\" (ds.json:1) belongs to"));
}

TEST_CASE("keys of offload that steer DeepSpeed's own machinery are named in a warning") {
  const Config config = stage(3, R"("offload_optimizer": {"device": "cpu", "buffer_count": 5, "pin_memory": false,
    "pipeline_read": true, "pipeline_write": true, "fast_init": true}, "offload_param": {"device": "cpu",
    "buffer_count": 6, "buffer_size": 7, "pin_memory": false})");
  CHECK(config.warnings.size() == 8);
  for (const char* key : {"offload_optimizer.buffer_count = 5", "offload_optimizer.pin_memory", "pipeline_read",
                          "pipeline_write", "fast_init", "offload_param.buffer_size", "offload_param.pin_memory"}) {
    CHECK(warned(config, key));
  }
  CHECK(stage(3, R"("offload_optimizer": {"device": "none", "fast_init": true})").warnings.empty());
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
