// DeepSpeed's keys of offload, new and old: what they place where, and what they contradict.
#include <nlohmann/json.hpp>

#include "models/model.h"
#include "optimizer/unit.h"
#include "tests/runtime/config/config_helpers.h"
#include "tests/runtime/config/memory_helpers.h"

namespace zrt::config_offload_test {

using namespace zrt::runtime;
using zrt::core::Tier;
using Names = std::vector<std::string>;

namespace {

std::string stage_error(int number, const std::string& keys, const std::string& more = "") {
  return error_of([&] { stage(number, keys, more); });
}

}  // namespace

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

}  // namespace zrt::config_offload_test
