#include "runtime/train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/numeric_guard.h"
#include "runtime/train/resume.h"

namespace zrt::runtime {
namespace {

models::Model decoding_model(const Config& config) {
  models::Model model = config.model.make();
  if (model.masking) {
    throw core::ConfigError(fmt::format(
        "model.type is \"{}\": a model that names hidden tokens from both sides cannot make text token by "
        "token. Generate with a model of another type, as gpt2; `zrt eval` says how well this one names them.",
        config.model.type));
  }
  return model;
}

}  // namespace

struct Generator::Impl {
  Config config;
  models::Model model;
  checkpoint::Reader file;
  int32_t token = 0;  // that the next decode reads
  std::unique_ptr<Session> session;
  std::vector<int32_t> prompt;       // whose keys and values lie in the cache
  std::vector<float> prompt_logits;  // behind it

  Impl(const Config& run, const std::filesystem::path& folder)
      : config(weights_alone(run)), model(decoding_model(config)), file(open(folder)) {
    session = std::make_unique<Session>(
        compile_within_budget(config, model, {"load", "decode"}), session_options(config),
        SessionHooks{
            [this](int, uint32_t, const data::SampleRows& to) { to.tokens[0] = token; },
            [this](const std::string& tensor, int64_t begin, std::span<float> out) { file.read(tensor, begin, out); }});
    session->run("load", {});
    require_finite_weights(*session, folder);
  }

  checkpoint::Reader open(const std::filesystem::path& folder) const {
    checkpoint::Reader reader(folder, false);
    require_weights(reader, model);
    return reader;
  }

  std::vector<float> decode(int32_t next, int64_t position) {
    token = next;
    StepInputs inputs;
    inputs.position = position;
    session->run("decode", inputs);
    const std::vector<std::byte> bytes = session->executor(0).read("decode output of " + model.blocks.back()->name());
    std::vector<float> logits(static_cast<size_t>(config.model.vocab));
    std::memcpy(logits.data(), bytes.data(), logits.size() * sizeof(float));
    return logits;
  }

  std::vector<float> behind(const std::vector<int32_t>& wanted) {
    if (wanted != prompt) {
      prompt.clear();
      for (size_t i = 0; i < wanted.size(); ++i) prompt_logits = decode(wanted[i], static_cast<int64_t>(i));
      prompt = wanted;
    }
    return prompt_logits;
  }
};

Generator::Generator(const Config& config, const std::filesystem::path& checkpoint)
    : impl_(std::make_unique<Impl>(config, checkpoint)) {}
Generator::~Generator() = default;

GeneratedTokens Generator::generate(const GenerateOptions& options) {
  const auto length = static_cast<int64_t>(options.prompt.size());
  const int64_t sequence = impl_->config.model.sequence;
  if (length < 1 || length > sequence) {
    throw core::ConfigError(
        fmt::format("the prompt has {} tokens; legal are 1 to {}, which is model.sequence", length, sequence));
  }
  std::vector<float> logits = impl_->behind(options.prompt);
  GeneratedTokens text;
  for (int64_t position = length - 1; static_cast<int64_t>(text.tokens.size()) < options.tokens; ++position) {
    const int32_t next = choose_token(logits, options.sampling, options.sample, static_cast<uint64_t>(position));
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), next) != options.stop_tokens.end()) {
      text.end = TextEnd::stop_token;
      break;
    }
    text.tokens.push_back(next);
    if (options.emit && !options.emit(next)) {
      text.end = TextEnd::caller;
      break;
    }
    if (position + 1 >= sequence) {
      text.end = TextEnd::sequence;
      break;
    }
    if (static_cast<int64_t>(text.tokens.size()) < options.tokens) logits = impl_->decode(next, position + 1);
  }
  return text;
}

}  // namespace zrt::runtime
