// Degrees of parallel.expert, with routers whose choices rest on no rounding: what the head reads has the logits of
// fp64, and there is one set of gradients, whichever rank has an expert.
#include <mutex>

#include "models/model.h"
#include "tests/models/golden.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::expert_degrees_test {

using namespace zrt;
using namespace zrt::testing;
using models::Gpt2Config;
using models::LlamaConfig;

namespace {

constexpr int ranks = 4;
constexpr double margin = 1e-3;
constexpr double rate = 1000;  // differences of weights are gradients beside the rounding of weights

template <class Config>
Config with(const models::Experts& experts) {
  Config config;
  config.layers = 2, config.hidden = 32, config.heads = 4, config.sequence = 16, config.vocab = 61;
  config.experts = experts;
  if constexpr (std::is_same_v<Config, LlamaConfig>) config.kv_heads = 2, config.ffn = 48;
  return config;
}
models::Model make(const Gpt2Config& config) {
  return models::make_gpt2(config);
}
models::Model make(const LlamaConfig& config) {
  return models::make_llama(config);
}

// Routers of the recipe, made larger, so that few choices lie close to each other.
template <class Config>
test::Tensors weights_of(const Config& config) {
  test::Tensors weights = test::recipe_weights(config);
  for (auto& [name, values] : weights) {
    if (!name.ends_with("mlp.gate.weight")) continue;
    for (double& value : values) value = static_cast<float>(6 * value);
  }
  return weights;
}

struct RankBatch {
  test::Batch batch;
  std::vector<double> logits;  // of fp64
};

// Looks for a batch of each rank in which every choice of every layer has its margin.
template <class Config>
std::vector<RankBatch> decided_batches(const Config& config, const test::Tensors& weights) {
  std::vector<RankBatch> found;
  for (int64_t index = 0; index < 2000 && found.size() < ranks; ++index) {
    const test::Batch batch = test::recipe_batch(config, 2, config.sequence, index);
    const test::ReferenceResult expected = test::reference(config, weights, batch);
    REQUIRE(expected.loads.size() == static_cast<size_t>(config.layers / config.experts.every));
    if (expected.router_margin > margin) found.push_back({batch, expected.logits});
  }
  REQUIRE(found.size() == ranks);
  return found;
}

// The head's norm and product of its input (rows, C), in fp64.
std::vector<double> logits_of(const models::Block& head, const test::Tensors& weights, const float* x, int64_t rows) {
  const bool centred = head.params().size() == 3;  // a LayerNorm: gain and bias
  const std::vector<double>&gain = weights.at(head.params()[0].name), &bias = weights.at(head.params()[1].name);
  const std::vector<double>& output = weights.at(head.params().back().name);
  const auto C = static_cast<int64_t>(gain.size()), V = static_cast<int64_t>(output.size()) / C;
  std::vector<double> logits;
  for (int64_t r = 0; r < rows; ++r, x += C) {
    double mean = 0, square = 0;
    for (int64_t c = 0; c < C && centred; ++c) mean += static_cast<double>(x[c]) / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) square += std::pow(static_cast<double>(x[c]) - mean, 2) / static_cast<double>(C);
    const double inverse = 1 / std::sqrt(square + 1e-5);
    for (int64_t v = 0; v < V; ++v) {
      double sum = 0;
      for (int64_t c = 0; c < C; ++c) {
        const double normed = (static_cast<double>(x[c]) - mean) * inverse * gain[static_cast<size_t>(c)] +
                              (centred ? bias[static_cast<size_t>(c)] : 0);
        sum += normed * output[static_cast<size_t>(v * C + c)];
      }
      logits.push_back(sum);
    }
  }
  return logits;
}

struct Step {
  std::vector<std::vector<double>> logits;  // by data-parallel rank
  std::map<std::string, std::vector<double>> gradients;
  double norm = 0;
};

template <class Config>
Step one_step(Config config, const test::Tensors& weights, const std::vector<RankBatch>& batches, int expert,
              int tensor, int stage) {
  Setting s;
  s.ranks = ranks, s.expert = expert, s.tensor = tensor, s.stage = stage, s.clip = 0;
  s.optimizer = make_optimizer(optimizer::SgdParams{});
  config.degrees = {tensor, false, expert};
  Step step;
  step.logits.resize(ranks);
  std::mutex mutex;
  const models::Model model =
      wrap(make(config), {[&](const models::Block& block, const models::Call& call, bool back) {
                            if (back || block.name() != "head" || !call.parts.has(0)) return;
                            const std::vector<double> logits =
                                logits_of(block, weights, static_cast<const float*>(call.input), call.shape.rows());
                            const std::lock_guard lock(mutex);
                            step.logits[static_cast<size_t>(rank_of(call, ranks))] = logits;
                          },
                          {}});
  const runtime::Layout layout = make_layout(model, s);
  const auto batch = [&](int rank, uint32_t, const runtime::data::SampleRows& to) {
    const test::Batch& own = batches[static_cast<size_t>(layout.mesh.place(runtime::data_axes, rank))].batch;
    std::copy(own.tokens.begin(), own.tokens.end(), to.tokens);
    if (to.targets != nullptr) std::copy(own.targets.begin(), own.targets.end(), to.targets);
  };
  const auto load = [&](const std::string& name, int64_t begin, std::span<float> out) {
    const auto from = weights.at(name).begin() + begin;
    std::transform(from, from + static_cast<int64_t>(out.size()), out.begin(),
                   [](double value) { return static_cast<float>(value); });
  };
  runtime::Session session(runtime::compile(layout, {"load", "step", "export"}), session_options(s), {batch, load});
  session.run("load", {});
  session.run("step", {s.seed, 0, 0, {rate}});
  step.norm = session.executor(0).control().grad_norm;
  session.export_weights([&](const models::Param& param, const float* values) {
    std::vector<double>& gradient = step.gradients[param.name];
    const std::vector<double>& before = weights.at(param.name);
    for (size_t i = 0; i < before.size(); ++i) {
      gradient.push_back((before[i] - static_cast<double>(values[i])) / rate);
    }
  });
  return step;
}

template <class Config>
void check_degrees(const models::Experts& experts) {
  const Config config = with<Config>(experts);
  const test::Tensors weights = weights_of(config);
  const std::vector<RankBatch> batches = decided_batches(config, weights);
  const Step all = one_step(config, weights, batches, 1, 1, 0);
  for (const int expert : {1, 2, 4}) {
    for (const int tensor : {1, 2}) {
      const Step spread = one_step(config, weights, batches, expert, tensor, expert == 2 ? 3 : 1);
      CAPTURE(expert, tensor);
      for (size_t r = 0; r < ranks; ++r) {
        CAPTURE(r);
        CHECK(test::distance(spread.logits[r], batches[r].logits) < 1e-5);
        CHECK(test::distance(spread.logits[r], all.logits[r]) < 1e-5);
      }
      REQUIRE(spread.gradients.size() == weights.size());
      for (const auto& [name, gradient] : all.gradients) {
        CAPTURE(name);
        CHECK(test::distance(test::without_key_bias(name, spread.gradients.at(name)),
                             test::without_key_bias(name, gradient)) < 1e-5);
      }
      CHECK(spread.norm == Approx(all.norm).epsilon(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("What a step brings to the head has the logits of fp64, and its gradients are one set, at each degree") {
  const models::Experts likeliest{
      .number = 4, .ffn = 24, .top_k = 2, .normalised = true, .aux_loss = 0.1, .z_loss = 0.01};
  const models::Experts prototypes{.number = 8, .ffn = 16, .prototypes = 2, .aux_loss = 0.1, .every = 2};
  check_degrees<LlamaConfig>(likeliest);
  check_degrees<Gpt2Config>(likeliest);
  check_degrees<LlamaConfig>(prototypes);
  check_degrees<Gpt2Config>(prototypes);
}

}  // namespace zrt::expert_degrees_test
