// Groups of parameters and optimizers side by side, from the JSON to the weights of some steps, against plain loops.
#include "tests/runtime/engine/plain_optimizers.h"

#include <cmath>
#include <cstring>
#include <set>

#include "core/form.h"
#include "optimizer/optimizer.h"
#include "tests/runtime/config/config_helpers.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::plain_optimizers_test {

using namespace zrt;
using namespace zrt::testing;
using core::Category;
using nlohmann::json;

namespace {

// Returns what a sample adds to an element of a block's gradient: any number that is known beforehand.
double contribution(const std::string& block, const std::string& param, uint32_t step, uint64_t sample, int64_t i) {
  uint32_t tensor = 7;
  for (const char c : block + param) tensor = tensor * 31 + static_cast<unsigned char>(c);
  const uint32_t word = core::random_word({17, step, tensor}, sample * 65536 + static_cast<uint64_t>(i));
  return (static_cast<double>(word >> 8) / 0x1p23 - 1) / 16;
}

// Computes nothing, and has these gradients.
class ScriptedBlock : public ToyBlock {
 public:
  using ToyBlock::ToyBlock;
  void forward(const models::Call& call) const override {
    if (call.output) std::memset(call.output, 0, static_cast<size_t>(call.shape.rows() * width_) * sizeof(float));
    if (call.loss) *call.loss = 1;
  }
  void backward(const models::Call& call) const override {
    for (size_t p = 0; p < params_.size(); ++p) {
      auto* grad = static_cast<float*>(call.grads[p]);
      for (int64_t i = 0; i < params_[p].elements(); ++i) {
        double sum = call.accumulate[p] ? static_cast<double>(grad[i]) : 0;
        for (int64_t b = 0; b < call.shape.B; ++b) {
          sum += contribution(name_, params_[p].name, call.rng.step, call.first_sample + static_cast<uint64_t>(b), i);
        }
        grad[i] = static_cast<float>(sum);
      }
    }
    if (call.d_input) std::memset(call.d_input, 0, static_cast<size_t>(call.shape.rows() * width_) * sizeof(float));
    if (call.loss) *call.loss = 1;
  }
};

// Embedding, layers with a wide, a high and a square matrix, and a head, which may share the embedding's weight.
models::Model scripted_model(int64_t width, bool tied) {
  models::Model model;
  model.type = "toy", model.hidden = width, model.sequence = 4, model.vocab = 2 * width + 3, model.layers = 2;
  model.tied = tied;
  const auto block = [&](const std::string& name, std::vector<Param> params) {
    model.blocks.push_back(std::make_unique<ScriptedBlock>(name, width, std::move(params)));
  };
  block("embed", {{"embed.weight", {model.vocab, width}, Init::normal, 0.3f}});
  for (const std::string name : {"layer.0", "layer.1"}) {
    block(name, {{name + ".up", {width, 2 * width}, Init::normal, 0.4f},
                 {name + ".bias", {2 * width}, Init::normal, 0.4f},
                 {name + ".down", {2 * width, width}, Init::normal, 0.4f},
                 {name + ".mix", {width, width}, Init::normal, 0.4f}});
  }
  block("head", {{"head.gain", {width}, Init::ones, 0},
                 {tied ? "embed.weight" : "head.weight", {model.vocab, width}, Init::normal, 0.3f}});
  return model;
}

// Every block's sum over the samples of a step.
std::map<std::string, Values> gradients_of(const models::Model& model, uint32_t step, uint64_t samples) {
  std::map<std::string, Values> sums;
  for (const auto& block : model.blocks) {
    for (const Param& param : block->params()) {
      Values& sum = sums.try_emplace(param.name, static_cast<size_t>(param.elements())).first->second;
      for (uint64_t sample = 0; sample < samples; ++sample) {
        for (size_t i = 0; i < sum.size(); ++i) {
          sum[i] += contribution(block->name(), param.name, step, sample, static_cast<int64_t>(i));
        }
      }
    }
  }
  return sums;
}

double norm_of(const std::map<std::string, Values>& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

std::vector<PlainTensor> tensors_of(const models::Model& model,
                                    const std::map<std::string, std::vector<float>>& start) {
  std::vector<PlainTensor> tensors;
  std::map<std::string, bool> hidden;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    for (const Param& param : model.blocks[b]->params()) {
      const bool inside = b > 0 && b + 1 < model.blocks.size();
      const bool first = !hidden.count(param.name);
      hidden[param.name] = inside && (first || hidden[param.name]);
      const std::vector<float>& weights = start.at(param.name);
      if (first) tensors.push_back({param.name, param.shape, false, {weights.begin(), weights.end()}});
    }
  }
  for (PlainTensor& tensor : tensors) tensor.hidden = hidden[tensor.name];
  return tensors;
}

// Returns how far a tensor is from the plain one, relative to the way that the plain one has come from the start.
double off_way(const std::vector<float>& weights, const Values& plain, const std::vector<float>& start) {
  double difference = 0, way = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    difference += std::pow(static_cast<double>(weights[i]) - plain[i], 2);
    way += std::pow(plain[i] - static_cast<double>(start[i]), 2);
  }
  return std::sqrt(difference / way);
}

// The bytes of states that one rank keeps of whole tensors, each from a multiple of the alignment on.
struct StateBytes {
  uint64_t first = 0, second = 0;
  bool operator==(const StateBytes&) const = default;
};
StateBytes state_bytes(const json& config, const runtime::Layout& layout, const std::string& moments) {
  StateBytes bytes;
  const auto of = [&](int64_t elements) {
    const auto n = static_cast<uint64_t>(elements);
    return moments == "int8" ? n + n / 2048 * 4 : n * (moments == "bf16" ? 2 : 4);
  };
  for (const optimizer::Unit& unit : layout.units.units) {
    std::set<size_t> kept;
    for (const optimizer::UnitParam& place : unit.params) {
      const std::string& name = place.param->name;
      const bool hidden = name.starts_with("layer.");
      kept.insert(plain_rule(config, {name, place.param->shape, hidden, {}}).states());
    }
    REQUIRE(kept.size() == 1);
    if (*kept.begin() >= 1) bytes.first += of(unit.elements);
    if (*kept.begin() >= 2) bytes.second += of(unit.elements);
  }
  return bytes;
}

// A configuration as the program reads it; the model comes from here.
runtime::Config read(const json& config) {
  std::string text = config.dump();
  text.front() = ' ', text.back() = ',';
  return runtime::parsed(text);
}

// One optimizer of every kind, which differs from its defaults where that shows.
const std::map<std::string, json> rests{
    {"AdamW", {{"type", "AdamW"}, {"params", {{"lr", 0.02}, {"betas", {0.8, 0.95}}, {"weight_decay", 0.4}}}}},
    {"Adam",
     {{"type", "Adam"}, {"params", {{"lr", 0.02}, {"adam_w_mode", false}, {"eps", 1e-3}, {"weight_decay", 0.02}}}}},
    {"SGD", {{"type", "SGD"}, {"params", {{"lr", 0.3}, {"momentum", 0.8}, {"weight_decay", 0.1}, {"nesterov", true}}}}},
    {"plain SGD", {{"type", "SGD"}, {"params", {{"lr", 0.3}, {"weight_decay", 0.3}}}}},
    {"Lion", {{"type", "Lion"}, {"params", {{"lr", 0.02}, {"betas", {0.9, 0.95}}, {"weight_decay", 0.4}}}}},
    {"Muon",
     {{"type", "Muon"},
      {"params", {{"lr", 0.04}, {"muon_lr", 0.06}, {"adam_lr", 0.01}, {"weight_decay", 0.4}, {"betas", {0.7, 0.9}}}}}},
    {"Adafactor",
     {{"type", "Adafactor"},
      {"params", {{"lr", 0.03}, {"relative_step", false}, {"scale_parameter", false}, {"weight_decay", 0.3}}}}}};

// A few ways to give tensors to groups, with an optimizer for some.
std::vector<json> groupings(const json& optimizer) {
  json other = optimizer;
  other["params"]["weight_decay"] = 0.7;
  const auto group = [](const json& match, const json& more) {
    json one = more;
    one["match"] = match;
    return one;
  };
  return {json::array({group({"*.up", "embed*"}, {{"optimizer", optimizer}})}),
          // A decay and a rate beside the optimizer's own, and the same optimizer again for others.
          json::array({group("layer.1.*", {{"optimizer", optimizer}, {"weight_decay", 0.9}, {"lr_scale", 2.5}}),
                       group({"*.mix", "*.gain", "*.bias"}, {{"optimizer", optimizer}, {"lr_scale", 0.4}})}),
          // Two that differ in one number alone, in front of a group of the rest that they leave little for.
          json::array({group("layer.0.up", {{"optimizer", optimizer}}),
                       group({"layer.?.up", "head.*"}, {{"optimizer", other}, {"lr_scale", 1.5}}),
                       group({"layer.*", "embed*"}, {{"weight_decay", 0.15}, {"lr_scale", 3}})}),
          json::array({group({"*.down", "*.bias"}, {{"weight_decay", 0.9}, {"lr_scale", 0.3}}),
                       group("*.mix", {{"lr_scale", 2}})})};
}

// Muon is two of the optimizers that a run may have.
uint32_t members_of(const json& config) {
  std::set<std::string> distinct{config["optimizer"].dump()};
  for (const json& group : config["parameter_groups"]) {
    if (group.contains("optimizer")) distinct.insert("group " + group["optimizer"].dump());
  }
  uint32_t members = 0;
  for (const std::string& one : distinct) members += one.find("Muon") == std::string::npos ? 1 : 2;
  return members;
}

Setting setting(const json& config, unsigned turn) {
  const runtime::Config read_config = read(config);
  Setting s;
  s.optimizer = read_config.optimizer.algorithm, s.rate = read_config.optimizer.lr;
  s.ranks = 1 + static_cast<int>(turn % 2), s.stage = static_cast<int>(turn / 2 % 4);
  s.accumulation = s.reduce_every = 1 + turn / 3 % 2;
  s.unit_elements = turn % 5 < 2 ? 100 : 9000;
  s.steps = 3, s.clip = turn % 4 == 0 ? 0.5 : 0;
  return s;
}

// Returns how far the tensor that is furthest off is from the plain one, by the type of optimizer that updates it.
std::map<std::string, double> off_ways(const json& config, const models::Model& model, const Setting& s) {
  Setting none = s;
  none.steps = 0;
  const auto start = run(model, none).tensors;
  const Outcome outcome = run(model, s);
  const std::vector<PlainTensor> tensors = tensors_of(model, start);
  PlainOptimizer plain(config, tensors);
  const auto samples = static_cast<uint64_t>(s.ranks * s.micro_batch) * s.accumulation;
  for (uint32_t step = 0; step < static_cast<uint32_t>(s.steps); ++step) {
    auto gradients = gradients_of(model, step, samples);
    const double norm = norm_of(gradients);
    CHECK(outcome.norms[step] == Approx(norm).epsilon(1e-5));
    const double factor = s.clip > 0 ? std::min(1.0, s.clip / (norm + 1e-6)) : 1;
    for (auto& [name, values] : gradients) {
      for (double& value : values) value *= factor;
    }
    plain.step(gradients);
  }
  CHECK(outcome.measured == outcome.planned);
  std::map<std::string, double> off;
  for (const PlainTensor& tensor : tensors) {
    double& most = off[plain_rule(config, tensor).type];
    const double own = off_way(outcome.tensors.at(tensor.name), plain.weights(tensor.name), start.at(tensor.name));
    most = std::max(most, own);
  }
  return off;
}

// States are as many and as long as their forms say, and none of their blocks is cut.
void check_states(const json& config, const models::Model& model, Setting s, const std::string& moments) {
  s.ranks = 1, s.stage = 0;
  const runtime::Layout layout = make_layout(model, s);
  const auto states = runtime::compile(layout, {"init", "step", "export"}).plan.device().model_states;
  const StateBytes expected = state_bytes(config, layout, moments);
  CHECK(StateBytes{states[static_cast<size_t>(Category::moment1)], states[static_cast<size_t>(Category::moment2)]} ==
        expected);
  if (expected.first == 0) return;
  CHECK(layout.optimizer->alignment() == (moments == "int8" ? core::form_block : optimizer::unit_alignment));
}

}  // namespace

TEST_CASE("groups of every optimizer beside every other step as plain loops over whole tensors do") {
  unsigned turn = 0;
  // The most of each form and optimizer. A sign that rounding turns in fewer bits is a whole step off.
  std::map<std::string, double> most;
  for (const auto& [rest, rest_spec] : rests) {
    for (const auto& [member, member_spec] : rests) {
      const bool forms = rest != "Adafactor" && member != "Adafactor";
      for (const json& groups : groupings(member_spec)) {
        for (const std::string moments : {"fp32", turn % 2 == 0 ? "bf16" : "int8"}) {
          if (moments != "fp32" && !forms) continue;
          const json config{{"optimizer", rest_spec}, {"parameter_groups", groups}, {"memory", {{"moments", moments}}}};
          CAPTURE(rest, member, groups.dump(), moments, turn);
          if (members_of(config) > optimizer::most_members) {
            CHECK_THROWS_WITH(read(config), Catch::Contains("at most 4 optimizers"));
            continue;
          }
          const Setting s = setting(config, turn);
          const models::Model model = scripted_model(moments == "int8" ? 40 : 8, turn % 2 == 0);
          for (const auto& [type, off] : off_ways(config, model, s)) {
            CAPTURE(type);
            if (moments == "fp32") CHECK(off < 1e-4);
            most[moments + " " + type] = std::max(most[moments + " " + type], off);
          }
          if (forms) check_states(config, model, s, moments);
        }
        ++turn;
      }
    }
  }
  for (const auto& [name, off] : most) {
    CAPTURE(name);
    CHECK(off < (name.ends_with("lion") && !name.starts_with("fp32") ? 0.2 : 0.06));
  }
}

TEST_CASE("a schedule of betas is taken where any of the optimizers has betas, and warned of where none has") {
  const std::string cycle =
      R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1,
         "cycle_momentum": true}},)";
  const auto with = [&](const std::string& rest, const std::string& member) {
    return cycle + R"("optimizer": {"type": ")" + rest +
           R"(", "params": {"lr": 0.01}}, "parameter_groups": [{"match": "h.0.*", "optimizer": ")" + member + R"("}],)";
  };
  for (const std::string rest : {"SGD", "Lion", "AdamW"}) {
    for (const std::string member : {"SGD", "Lion", "AdamW"}) {
      CAPTURE(rest, member);
      const runtime::Config config = runtime::parsed(with(rest, member));
      const bool any = rest != "SGD" || member != "SGD";
      CHECK(config.schedule.one_cycle.momentum == any);
      CHECK(std::any_of(config.warnings.begin(), config.warnings.end(), [](const std::string& text) {
              return text.find("cycle_momentum = true has no effect") != std::string::npos;
            }) != any);
    }
  }
}

}  // namespace zrt::plain_optimizers_test
