#include "runtime/train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/numeric_guard.h"
#include "runtime/train/resume.h"

namespace zrt::runtime {
namespace {

// The index at which the running sum of probabilities over the sorted candidates passes a uniform number.
int32_t sample(const float* logits, int64_t vocab, const GenerateOptions& options, uint64_t position) {
  if (!std::all_of(logits, logits + vocab, [](float x) { return std::isfinite(x); })) {
    throw core::DataError(
        "the model's output is not a number: the weights are finite, but the model overflows on this text. The run has "
        "diverged; train again with a lower optimizer.params.lr or with gradient_clipping.");
  }
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  const bool greedy = options.temperature <= 0;
  const int64_t keep = greedy ? 1 : options.top_k > 0 ? std::min(options.top_k, vocab) : vocab;
  std::partial_sort(order.begin(), order.begin() + keep, order.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (greedy) return order[0];
  std::vector<double> weights;
  for (int64_t i = 0; i < keep; ++i) {
    const float above = logits[order[static_cast<size_t>(i)]] - logits[order[0]];
    weights.push_back(std::exp(static_cast<double>(above) / options.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double left = static_cast<double>(core::uniform(core::random_word({options.seed, 0, 0}, position))) * total;
  size_t pick = 0;
  while (pick + 1 < weights.size() && left >= weights[pick]) left -= weights[pick++];
  return order[pick];
}

}  // namespace

std::vector<int32_t> generate(const Config& config, const std::filesystem::path& checkpoint_folder,
                              const GenerateOptions& options) {
  const auto prompt = static_cast<int64_t>(options.prompt.size());
  if (prompt < 1 || prompt > config.model.sequence) {
    throw core::ConfigError(fmt::format("the prompt has {} tokens; legal are 1 to {}, which is model.sequence", prompt,
                                        config.model.sequence));
  }
  const Config one = weights_alone(config);
  const models::Model model = one.model.make();
  if (model.masking) {
    throw core::ConfigError(fmt::format(
        "model.type is \"{}\": a model that names hidden tokens from both sides cannot make text token by "
        "token. Generate with a model of another type, as gpt2; `zrt eval` says how well this one names them.",
        model.type));
  }
  std::vector<Compiled> compiled = compile_within_budget(one, model, {"load", "decode"});
  const checkpoint::Reader file(checkpoint_folder, false);
  require_weights(file, model);
  int32_t token = options.prompt[0];
  Session session(
      std::move(compiled), session_options(one),
      {[&](int, uint32_t, int32_t* tokens, int32_t*) { tokens[0] = token; },
       [&](const std::string& tensor, int64_t begin, std::span<float> out) { file.read(tensor, begin, out); }});
  session.run("load", {});
  require_finite_weights(session, checkpoint_folder);
  const std::string output = "decode output of " + model.blocks.back()->name();
  std::vector<int32_t> text;
  for (int64_t position = 0; position < config.model.sequence; ++position) {
    StepInputs inputs;
    inputs.position = position;
    session.run("decode", inputs);
    if (position + 1 < prompt) {
      token = options.prompt[static_cast<size_t>(position + 1)];
      continue;
    }
    if (static_cast<int64_t>(text.size()) >= options.tokens) break;
    const std::vector<std::byte> logits = session.executor(0).read(output);
    token = sample(reinterpret_cast<const float*>(logits.data()), config.model.vocab, options,
                   static_cast<uint64_t>(position));
    if (token == options.stop_token) break;
    text.push_back(token);
    if (options.emit) options.emit(token);
  }
  return text;
}

}  // namespace zrt::runtime
