#include "runtime/program/placement_rules.h"

#include <fmt/format.h>

#include "catch.h"
#include "core/error.h"
#include "runtime/config/config.h"
#include "runtime/plan/limits.h"
#include "runtime/plan/placement_text.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "tests/runtime/config/config_helpers.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::placement_rules_test {

using namespace zrt;
using namespace zrt::runtime;
using core::Tier;

namespace {

// A model of four layers, each one unit; the embeddings are units of their own, the final norm too.
const char* const base = R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3},
  "optimizer": {"type": "AdamW"}, "memory": {"unit_bytes": 131072, "nvme_path": "x"},
  "model": {"type": "gpt2", "layers": 4, "hidden": 64, "heads": 2, "sequence": 32, "vocab": 1024, "tied": true}})";

struct Made {
  Config config;
  models::Model model;
  Layout layout;
};

std::unique_ptr<Made> made(const std::vector<std::string>& sets) {
  auto m = std::make_unique<Made>();
  m->config = parse_config(base, "place.json", sets, 2);
  m->model = m->config.model.make();
  m->layout = make_layouts(m->config, m->model).front();
  return m;
}

std::string refusal(const std::string& set, const std::string& other = "run.seed=1") {
  return error_of([&] { made({other, set}); });
}

// The unit that holds a parameter.
size_t unit_of(const Layout& layout, const std::string& name) {
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    for (const auto& param : layout.units.units[u].params) {
      if (param.param->name == name) return u;
    }
  }
  FAIL("no parameter is named " << name);
  return 0;
}

std::vector<size_t> units_where(const Layout& layout, const std::function<bool(const UnitTiers&)>& holds) {
  std::vector<size_t> found;
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    if (holds(layout.placement.tiers(u))) found.push_back(u);
  }
  return found;
}

}  // namespace

TEST_CASE("nothing moves without a rule, and a placement is empty then") {
  for (const char* set : {"run.seed=1", "memory.placement=device", "memory.placement=[]", "memory.update=device",
                          "memory.placement=[{\"states\": [\"grad\"], \"tier\": \"device\"}]"}) {
    const auto m = made({set});
    INFO(set);
    CHECK(!m->layout.placement.moves());
    CHECK(m->layout.placement.units.empty());
    CHECK(m->layout.placement.activations.empty());
    CHECK(m->layout.placement.recompute.empty());
  }
  CHECK(made({})->layout.open_placement);
  CHECK(made({})->layout.open_recompute);
  CHECK(!made({"memory.placement=device"})->layout.open_placement);
  CHECK(!made({"memory.recompute=none"})->layout.open_recompute);
  CHECK(made({"memory.microbatch_order=layer_major"})->layout.order == MicrobatchOrder::layer_major);
}

TEST_CASE("host and nvme move all states of all units, and updates to the host") {
  for (const auto& [name, tier] : {std::pair{"host", Tier::host}, {"nvme", Tier::nvme}}) {
    const auto m = made({std::string("memory.placement=") + name});
    REQUIRE(m->layout.placement.units.size() == m->layout.units.units.size());
    for (const UnitTiers& tiers : m->layout.placement.units) {
      CHECK(tiers.weight == tier);
      CHECK(tiers.grad == tier);
      CHECK(tiers.master == tier);
      CHECK(tiers.states == std::vector<Tier>{tier, tier});
      CHECK(tiers.update == Tier::host);
    }
    CHECK(m->layout.placement.activation(1) == Tier::device);
  }
}

TEST_CASE("a rule applies to the units of its layers, and the last one counts") {
  const auto m = made({R"(memory.placement=[{"layers": [1, 3], "states": ["master", "exp_avg_sq"], "tier": "host"},
    {"layers": 2, "states": ["master"], "tier": "nvme"}, {"parameters": "h.3.*", "states": ["master"],
    "tier": "device"}])"});
  const Placement& placement = m->layout.placement;
  for (size_t layer = 0; layer < 4; ++layer) {
    INFO(layer);
    const UnitTiers tiers = placement.tiers(unit_of(m->layout, "h." + std::to_string(layer) + ".ln_1.weight"));
    CHECK(tiers.master == (layer == 1 ? Tier::host : layer == 2 ? Tier::nvme : Tier::device));
    CHECK(tiers.state(0) == Tier::device);
    CHECK(tiers.state(1) == (layer == 0 ? Tier::device : Tier::host));
    CHECK(tiers.weight == Tier::device);
    // Layer 3 is not updated on the host: its master and one of its two states are in the device tier.
    CHECK(tiers.update == (layer == 1 || layer == 2 ? Tier::host : Tier::device));
  }
  for (const char* other : {"wte.weight", "wpe.weight", "ln_f.weight"}) {
    CHECK(placement.tiers(unit_of(m->layout, other)).master == Tier::device);
  }
}

TEST_CASE("a pattern reaches tied embeddings, and no pattern everything") {
  const auto m = made({R"(memory.placement=[{"parameters": "wt?.*", "states": ["weight"], "tier": "host"},
    {"states": ["grad"], "tier": "host"}])"});
  const size_t tied = unit_of(m->layout, "wte.weight");
  CHECK(m->layout.units.units[tied].blocks.size() == 2);
  CHECK(units_where(m->layout, [](const UnitTiers& h) { return h.weight == Tier::host; }) == std::vector<size_t>{tied});
  CHECK(units_where(m->layout, [](const UnitTiers& h) { return h.grad == Tier::host; }).size() ==
        m->layout.units.units.size());
}

TEST_CASE("a shared unit belongs to each layer that uses it") {
  const models::Model model = testing::make_toy(3, 12, 17, 5, false, true);
  testing::Setting s;
  s.unit_elements = 100;
  Layout layout = testing::make_layout(model, s);
  MemoryConfig memory;
  memory.rules.push_back(
      {.from = "rule", .layers = LayerRange{2, 2}, .parameters = "", .states = {"grad"}, .tier = Tier::host});
  layout.placement = make_placement(memory, layout);
  const size_t shared = unit_of(layout, "linear.0.weight"), own = unit_of(layout, "linear.2.bias");
  CHECK(units_where(layout, [](const UnitTiers& h) { return h.grad == Tier::host; }) ==
        std::vector<size_t>{shared, own});
  CHECK(resident_tiers_text(layout) == "  layer 2: grad → host\n");
}

TEST_CASE("activations move by layer, never those of the embedding and the head") {
  const auto m = made({R"(memory.placement=[{"layers": [1, 2], "states": ["activations"], "tier": "host"}])"});
  CHECK(m->layout.placement.activations ==
        std::vector<Tier>{Tier::device, Tier::device, Tier::host, Tier::host, Tier::device, Tier::device});
  CHECK(units_where(m->layout, [](const UnitTiers& h) { return h.update == Tier::host; }).empty());
  const auto all = made({"activation_checkpointing.cpu_checkpointing=true"});
  CHECK(all->layout.placement.activations ==
        std::vector<Tier>{Tier::device, Tier::host, Tier::host, Tier::host, Tier::host, Tier::device});
}

TEST_CASE("weights of layers slide from the host, or from where rules have them, and no others move") {
  const auto one = made({"memory.device_layers=3", "memory.moved_layers=2"});
  CHECK((one->layout.placement.sliding.layers == 3 && one->layout.placement.sliding.together == 2));
  const size_t embedding = unit_of(one->layout, "wte.weight");
  for (size_t u = 0; u < one->layout.units.units.size(); ++u) {
    const UnitTiers tiers = one->layout.placement.tiers(u);
    const uint32_t block = one->layout.units.units[u].blocks.front();
    CHECK(tiers.weight == (block >= 1 && block <= 4 ? Tier::host : Tier::device));
    CHECK((tiers.grad == Tier::device && tiers.master == Tier::device && tiers.update == Tier::device));
  }
  const auto disk = made({"memory.device_layers=3", "memory.placement=nvme"});
  CHECK(disk->layout.placement.sliding.layers == 3);
  CHECK(disk->layout.placement.tiers(unit_of(disk->layout, "h.0.ln_1.weight")).weight == Tier::nvme);
  CHECK(disk->layout.placement.tiers(embedding).weight == Tier::nvme);
  CHECK(placement_text(one->layout, {}).find("weights of 4 layers at a time on the device, 2 come and go together") !=
        std::string::npos);
}

TEST_CASE("as many layers on the device as the model has are no placement of their weights") {
  CHECK(made({"memory.device_layers=4"})->layout.placement.units.empty());
  const auto host = made({"memory.device_layers=4", "memory.placement=host"});
  CHECK(host->layout.placement.sliding.layers == 0);
  const UnitTiers layer = host->layout.placement.tiers(unit_of(host->layout, "h.0.ln_1.weight"));
  CHECK((layer.weight == Tier::device && layer.master == Tier::host));
  CHECK(host->layout.placement.tiers(unit_of(host->layout, "wte.weight")).weight == Tier::host);
}

TEST_CASE("layers that cannot slide are refused") {
  const auto says = [](const std::string& set, const std::string& other, const std::string& why) {
    const std::string error = refusal(set, other);
    INFO(set << ", " << other << ": " << error);
    CHECK(error.find("memory.device_layers") != std::string::npos);
    CHECK(error.find(why) != std::string::npos);
  };
  says("memory.device_layers=5", "run.seed=1", "the model has 4 layers; legal are 1 to 4");
  says("memory.device_layers=2", R"(memory.placement=[{"layers": 3, "states": ["weight"], "tier": "device"}])", "h.3");
  MemoryConfig memory;
  memory.sliding = {2, 1};
  memory.sliding_from = "memory.device_layers = 2";
  Layout shared = testing::make_layout(testing::make_toy(3, 12, 17, 5, false, true), {});
  CHECK(error_of([&] { make_placement(memory, shared); }).find("layers share the parameters") != std::string::npos);
  memory.sliding.layers = 3;
  CHECK(make_placement(memory, shared).units.empty());
  CHECK(error_of([&] {
          made({"memory.device_layers=2", "gradient_clipping=0", "memory.update_when=as_ready"});
        }).find("memory.update to \"host\"") != std::string::npos);
  CHECK(error_of([&] {
          made({"memory.device_layers=2", "memory.update_when=next_forward"});
        }).find("before they are updated") != std::string::npos);
  CHECK(made({"memory.device_layers=4", "memory.update_when=next_forward"})->layout.placement.sliding.layers == 0);
  CHECK(made({"memory.device_layers=2", "gradient_clipping=0", "memory.update_when=as_ready", "memory.update=host"})
            ->layout.placement.sliding.layers == 2);
}

TEST_CASE("a rule that says nothing of this run is refused") {
  const auto rule = [](const std::string& what, const std::string& states) {
    return "memory.placement=[{" + what + "\"states\": [" + states + "], \"tier\": \"host\"}]";
  };
  const std::string partly = refusal(rule(R"("parameters": "h.3.attn.*", )", "\"grad\""));
  CHECK(has(partly, "memory.placement[0] = {\"parameters\":\"h.3.attn.*\""));
  CHECK(has(partly, "matches 4 of the 12 parameters of the unit 'h.3.ln_1.weight … h.3.mlp.c_proj.bias'"));
  CHECK(has(partly, "memory.unit_bytes"));
  CHECK(has(refusal(rule(R"("parameters": "x.*", )", "\"grad\"")), "matches no parameter"));
  CHECK(has(refusal(rule(R"("layers": [2, 4], )", "\"grad\"")), "there is no layer 4; the model has 4 layers"));
  CHECK(has(refusal(rule(R"("layers": [2, 4], )", "\"activations\"")), "there is no layer 4"));
  CHECK(has(refusal("memory.recompute=[1, 9]"),
            "memory.recompute = [1,9] (--set memory.recompute): there is no layer 9"));
  CHECK(has(refusal(rule("", "\"momentum_buffer\"")), "the state \"momentum_buffer\", which this run does not have"));
  CHECK(has(refusal(rule("", "\"weights\"")), "\"exp_avg\", \"exp_avg_sq\""));
  CHECK(has(refusal(rule("", "\"master\""), "bf16.enabled=false"), "with fp32 weights there is no master"));
  CHECK(has(refusal(rule("", "\"moments\""), "optimizer.type=SGD"), "names states that no unit"));
  // A general name may stand for nothing beside one that stands for something.
  CHECK(made({"bf16.enabled=false", rule("", "\"master\", \"moments\"")})->layout.placement.moves());
}

TEST_CASE("a smaller unit lets a pattern match a part of a layer") {
  const auto m = made({"memory.unit_bytes=64", R"(memory.placement=[{"parameters": "h.3.attn.*", "states": ["grad"],
    "tier": "host"}])"});
  CHECK(units_where(m->layout, [](const UnitTiers& h) { return h.grad == Tier::host; }).size() == 4);
}

TEST_CASE("offload_optimizer moves what an update touches, and no weights") {
  const auto m = made({"zero_optimization.offload_optimizer.device=nvme"});
  CHECK(m->layout.open_placement);
  for (const UnitTiers& tiers : m->layout.placement.units) {
    CHECK(tiers.weight == Tier::device);
    CHECK(tiers.grad == Tier::host);
    CHECK(tiers.master == Tier::nvme);
    CHECK(tiers.states == std::vector<Tier>{Tier::nvme, Tier::nvme});
    CHECK(tiers.update == Tier::host);
  }
  const auto fp32 = made({"bf16.enabled=false", "zero_optimization.offload_optimizer.device=cpu"});
  for (const UnitTiers& tiers : fp32->layout.placement.units) {
    CHECK(tiers.master == Tier::device);  // there is none
    CHECK(tiers.state(0) == Tier::host);
    CHECK(tiers.update == Tier::host);
  }
}

TEST_CASE("a ratio takes the first units that hold at least this share of the parameters") {
  const auto whole = made({"zero_optimization.offload_optimizer.device=cpu"});
  const auto& units = whole->layout.units.units;
  int64_t all = 0;
  for (const auto& unit : units) all += unit.parameters();
  for (const double ratio : {0.0, 0.1, 0.5, 0.51, 0.9, 1.0}) {
    const auto m = made({"zero_optimization.offload_optimizer.device=cpu",
                         "zero_optimization.offload_optimizer.ratio=" + std::to_string(ratio)});
    const auto moved = units_where(m->layout, [](const UnitTiers& h) { return h.master == Tier::host; });
    INFO(ratio);
    CHECK(moved == units_where(m->layout, [](const UnitTiers& h) { return h.grad == Tier::host; }));
    CHECK(moved == units_where(m->layout, [](const UnitTiers& h) { return h.update == Tier::host; }));
    int64_t held = 0;
    for (size_t i = 0; i < moved.size(); ++i) {
      CHECK(moved[i] == i);
      CHECK(static_cast<double>(held) < ratio * static_cast<double>(all));
      held += units[i].parameters();
    }
    CHECK(static_cast<double>(held) >= ratio * static_cast<double>(all));
  }
}

TEST_CASE("max_in_cpu keeps the first weights of a rank on the host") {
  const auto in_host = [](int64_t most) {
    const auto m = made({"zero_optimization.offload_param.device=nvme",
                         "zero_optimization.offload_param.max_in_cpu=" + std::to_string(most)});
    const auto host = units_where(m->layout, [](const UnitTiers& h) { return h.weight == Tier::host; });
    const auto nvme = units_where(m->layout, [](const UnitTiers& h) { return h.weight == Tier::nvme; });
    CHECK(host.size() + nvme.size() == m->layout.units.units.size());
    return host.size();
  };
  const auto m = made({});
  const int64_t first = m->layout.units.units[0].shard, second = m->layout.units.units[1].shard;
  CHECK(in_host(0) == 0);
  CHECK(in_host(first - 1) == 0);
  CHECK(in_host(first) == 1);
  CHECK(in_host(first + second) == 2);
  CHECK(in_host(INT64_MAX) == m->layout.units.units.size());
}

TEST_CASE("the side of updates can be chosen, whatever is where") {
  const auto device = made({"memory.placement=host", "memory.update=device"});
  CHECK(units_where(device->layout, [](const UnitTiers& h) { return h.update == Tier::host; }).empty());
  const auto host = made({"memory.update=host"});
  CHECK(units_where(host->layout, [](const UnitTiers& h) { return h.update == Tier::host; }).size() ==
        host->layout.units.units.size());
  // Without states, the weights decide.
  const auto plain = made({"optimizer.type=SGD", "bf16.enabled=false", "memory.placement=host"});
  CHECK(units_where(plain->layout, [](const UnitTiers& h) { return h.update == Tier::host; }).size() ==
        plain->layout.units.units.size());
  const auto grads =
      made({"optimizer.type=SGD", "bf16.enabled=false", R"(memory.placement=[{"states": ["grad"], "tier": "host"}])"});
  CHECK(units_where(grads->layout, [](const UnitTiers& h) { return h.update == Tier::host; }).empty());
}

TEST_CASE("only transformer layers are computed again") {
  using R = Recompute;
  CHECK(made({"memory.recompute=selective"})->layout.placement.recompute ==
        std::vector<R>{R::none, R::selective, R::selective, R::selective, R::selective, R::none});
  CHECK(made({"memory.recompute=[0, [2, 3]]"})->layout.placement.recompute ==
        std::vector<R>{R::none, R::full, R::none, R::full, R::full, R::none});
  CHECK(!made({"memory.recompute=full"})->layout.placement.moves());
}

TEST_CASE("states of an optimizer that not every unit has are found by name") {
  const auto m = made({"optimizer.type=Adafactor", "memory.unit_bytes=64",
                       R"(memory.placement=[{"states": ["exp_avg_sq_row"], "tier": "host"}])"});
  for (size_t u = 0; u < m->layout.units.units.size(); ++u) {
    const auto states = m->layout.optimizer->states(m->layout.units.units[u]);
    const UnitTiers tiers = m->layout.placement.tiers(u);
    REQUIRE(tiers.states.size() == states.size());
    for (size_t kind = 0; kind < states.size(); ++kind) {
      CHECK(tiers.state(kind) == (states[kind].kind == "exp_avg_sq_row" ? Tier::host : Tier::device));
    }
  }
  CHECK(has(resident_tiers_text(m->layout), "everything: exp_avg_sq_row → host"));
}

TEST_CASE("a plan says where states live, and keeps silent where that is the device") {
  const auto text = [](const std::vector<std::string>& sets) {
    const auto m = made(sets);
    return resident_tiers_text(m->layout);
  };
  CHECK(text({}).empty());
  CHECK(text({"memory.placement=host"}) ==
        "  everything: weight, grad, master, exp_avg, exp_avg_sq → host\n  everything: updated on the host\n");
  CHECK(text({R"(memory.placement=[{"layers": [0, 2], "states": ["master", "moments"], "tier": "host"},
    {"layers": 1, "states": ["activations"], "tier": "host"}, {"parameters": "ln_f*", "states": ["grad"],
    "tier": "nvme"}])",
              "memory.recompute=[0, 2, 3]"}) ==
        "  layers 0–2: master, exp_avg, exp_avg_sq → host\n"
        "  layer 1: activations → host\n"
        "  ln_f.weight … ln_f.bias: grad → nvme\n"
        "  layers 0–2: updated on the host\n"
        "  layers 0, 2–3: computed again\n");
  CHECK(has(text({"memory.unit_bytes=64", R"(memory.placement=[{"parameters": "*.c_attn.*", "states": ["grad"],
    "tier": "host"}])"}),
            "h.0.attn.c_attn.weight, h.0.attn.c_attn.bias, h.1.attn.c_attn.weight, 5 more units: grad → host"));

  const auto m = made({"memory.recompute=full"});
  MemoryPlan plan;
  plan.tiers[0].model_states[static_cast<size_t>(core::Category::weights)] = 2048;
  plan.tiers[1].model_states[static_cast<size_t>(core::Category::master)] = 5 << 20;
  const std::string table = placement_text(m->layout, plan);
  CHECK(has(table, "weights             2.00 KiB             –             –\n"));
  CHECK(has(table, "master                     –      5.00 MiB             –\n"));
  CHECK(table.find("moment1") == std::string::npos);
  const Plan whole = make_plan(m->config, m->model, {"init", "step"}, std::nullopt);
  CHECK(has(plan_text(whole), "  layers 0–3: computed again\n"));
}

TEST_CASE("of a pipeline rules name layers of the whole model, of which a stage has some") {
  const std::vector<std::string> sets{"parallel.pipeline=2", "parallel.partition=[2,4]", "memory.recompute=[0,2]",
                                      R"(memory.placement=[{"layers": [1, 2], "states": ["master"], "tier": "host"},
                                         {"layers": 3, "states": ["activations"], "tier": "host"}])"};
  const auto m = made(sets);
  const std::vector<Layout> stages = make_layouts(m->config, m->model);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].placement.recompute == std::vector<Recompute>{Recompute::none, Recompute::full});
  CHECK(stages[1].placement.recompute ==
        std::vector<Recompute>{Recompute::none, Recompute::full, Recompute::none, Recompute::none});
  CHECK(units_where(stages[0], [](const UnitTiers& h) { return h.master == Tier::host; }).empty());
  for (const char* layer : {"1", "2"}) {
    const size_t unit = unit_of(stages[1], fmt::format("h.{}.ln_1.weight", layer));
    CHECK(stages[1].placement.tiers(unit).master == Tier::host);
  }
  CHECK(stages[1].placement.activations == std::vector<Tier>{Tier::device, Tier::device, Tier::host, Tier::device});
  CHECK(has(resident_tiers_text(stages[1]), "layers 1–2: master → host"));
  CHECK(has(resident_tiers_text(stages[1]), "layer 2: computed again"));
  CHECK(blocks_text(*stages[1].model) == "layers 1–3, head");
  // Not every stage has each kind of state.
  const auto muon =
      made({"parallel.pipeline=2", "parallel.partition=[1,5]", "optimizer.type=Muon", "optimizer.params.lr=0.02",
            R"(memory.placement=[{"states": ["momentum_buffer"], "tier": "host"}])"});
  CHECK(!make_layouts(muon->config, muon->model)[0].placement.moves());
  CHECK(make_layouts(muon->config, muon->model)[1].placement.moves());
  // A rule must match something of the model, not of each stage.
  CHECK(has(error_of([&] {
              made({sets[0], sets[1], R"(memory.placement=[{"parameters": "nothing", "states": ["master"],
    "tier": "host"}])"});
            }),
            "matches no parameter"));
}

TEST_CASE("each tier has a budget") {
  const auto m = made({"memory.device_budget_bytes=1", "memory.host_budget_bytes=2", "memory.nvme_budget_bytes=3"});
  const Limits limits = memory_limits(m->config, nullptr);
  for (size_t t = 0; t < core::tier_count; ++t) {
    REQUIRE(limits.tiers[t]);
    CHECK(limits.tiers[t]->bytes == t + 1);
    CHECK(limits.tiers[t]->from == "memory." + std::string(core::tier_names[t]) + "_budget_bytes");
  }
  CHECK(!limits.hold({1, 2, 4}));
  CHECK(limits.hold({1, 2, 3}));
}

}  // namespace zrt::placement_rules_test
