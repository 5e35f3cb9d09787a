#include "runtime/train/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "runtime/train/resume.h"
#include "runtime/train/trainer.h"
#include "tools/commands/arguments.h"
#include "tools/commands/generated_text.h"
#include "tools/commands/prompts.h"
#include "tools/commands/run_tokenizer.h"
#include "tools/commands/text_output.h"

namespace zrt::tools {
namespace {

namespace data = runtime::data;

runtime::GenerateOptions read_options(const po::variables_map& values) {
  runtime::GenerateOptions options;
  runtime::Sampling& sampling = options.sampling;
  options.tokens = values["tokens"].as<int64_t>();
  sampling.temperature = values["temperature"].as<double>();
  sampling.top_k = values["top-k"].as<int64_t>();
  sampling.top_p = values["top-p"].as<double>();
  const auto seed = values["seed"].as<int64_t>();
  if (seed < 0) throw core::UsageError(fmt::format("--seed is {}; legal are 0 to 2^63 - 1", seed));
  sampling.seed = static_cast<uint64_t>(seed);
  if (options.tokens < 1) throw core::UsageError(fmt::format("--tokens is {}; it must be positive", options.tokens));
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    throw core::UsageError(fmt::format("--temperature is {}; legal are 0 and more", sampling.temperature));
  }
  if (sampling.top_k < 0)
    throw core::UsageError(fmt::format("--top-k is {}; legal are 0 (all) and more", sampling.top_k));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    throw core::UsageError(fmt::format("--top-p is {}; legal are numbers above 0 up to 1 (all)", sampling.top_p));
  }
  return options;
}

// The end of a document, and those that are given.
std::vector<int32_t> read_stop_tokens(const po::variables_map& values, const data::TextCoder& coder,
                                      int64_t vocabulary) {
  std::vector<int32_t> stops{coder.end()};
  if (!values.count("stop-id")) return stops;
  for (const int64_t id : values["stop-id"].as<std::vector<int64_t>>()) {
    if (id < 0 || id >= vocabulary) {
      throw core::UsageError(
          fmt::format("--stop-id is {}; legal are ids of the model's vocabulary, 0 to {}", id, vocabulary - 1));
    }
    stops.push_back(static_cast<int32_t>(id));
  }
  return stops;
}

std::vector<std::string> read_stops(const po::variables_map& values) {
  std::vector<std::string> stops;
  if (values.count("stop")) stops = values["stop"].as<std::vector<std::string>>();
  for (const std::string& stop : stops) {
    if (stop.empty()) throw core::UsageError("--stop is an empty text, at which every text would end at once");
  }
  return stops;
}

const char* end_name(runtime::TextEnd end) {
  switch (end) {
    case runtime::TextEnd::tokens:
      return "tokens";
    case runtime::TextEnd::sequence:
      return "sequence";
    case runtime::TextEnd::stop_token:
      return "stop id";
    default:
      return "stop text";
  }
}

std::vector<int32_t> prompt_tokens(const data::TextCoder& coder, const Prompt& prompt, int64_t sequence) {
  std::vector<int32_t> tokens = coder.prompt(prompt.text);
  if (static_cast<int64_t>(tokens.size()) > sequence) {
    throw core::ConfigError(fmt::format("{}the prompt has {} tokens; legal are 1 to {}, which is model.sequence",
                                        prompt.place.empty() ? "" : prompt.place + ": ", tokens.size(), sequence));
  }
  return tokens;
}

// The line above each of several texts.
std::string heading(size_t prompt, size_t prompts, uint32_t sample, int64_t samples) {
  std::string text = "==";
  if (prompts > 1) text += fmt::format(" prompt {} of {}", prompt + 1, prompts);
  if (samples > 1) text += fmt::format("{} sample {} of {}", prompts > 1 ? "," : "", sample + 1, samples);
  return text + " ==\n";
}

}  // namespace

int generate_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("prompt", po::value<std::string>()->default_value("The "), "text to continue")(
      "prompts", po::value<std::string>(), "FILE of texts to continue, one a line, or .jsonl of {prompt}")(
      "samples", po::value<int64_t>()->default_value(1), "texts for each prompt")(
      "tokens", po::value<int64_t>()->default_value(200), "new tokens, at most")(
      "temperature", po::value<double>()->default_value(0.8), "0 takes the likeliest token")(
      "top-k", po::value<int64_t>()->default_value(40), "choose among the k likeliest; 0: all")(
      "top-p", po::value<double>()->default_value(1, "1"),
      "of these, among the likeliest that have this share; 1: all")("seed", po::value<int64_t>()->default_value(1),
                                                                    "of the choices")(
      "stop", po::value<std::vector<std::string>>()->composing(),
      "TEXT in front of which a text ends; may be repeated")(
      "stop-id", po::value<std::vector<int64_t>>()->composing(),
      "token that ends a text, as the end of a document does; may be repeated")(
      "json", "print prompt and text as JSON, several texts one a line");
  add_tokenizer_options(options, "");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt generate RUN [--prompt TEXT] [--tokens N]", options, {"RUN"}, values)) return 0;
  runtime::GenerateOptions generate = read_options(values);
  const std::vector<std::string> stops = read_stops(values);
  const auto samples = values["samples"].as<int64_t>();
  if (samples < 1 || samples > std::numeric_limits<int32_t>::max()) {
    throw core::UsageError(fmt::format("--samples is {}; legal are 1 to 2^31 - 1", samples));
  }
  const std::vector<Prompt> prompts = read_prompts(values);
  const runtime::RunPaths run = runtime::find_run(values["RUN"].as<std::string>());
  const runtime::Config config = runtime::load_resolved(run.config, config_settings(values));
  const runtime::checkpoint::Reader checkpoint(run.checkpoint, false);
  const RunTokenizer chosen = choose_tokenizer(config, run, checkpoint.manifest().made_by, tokenizer_wish(values));
  const data::TextCoder& coder = chosen.coder;
  if (!chosen.rule.empty()) spdlog::info("{}", chosen.rule);
  generate.stop_tokens = read_stop_tokens(values, coder, config.model.vocab);
  std::vector<std::vector<int32_t>> encoded;
  for (const Prompt& prompt : prompts) encoded.push_back(prompt_tokens(coder, prompt, config.model.sequence));

  const bool json = values.count("json") > 0, several = prompts.size() > 1 || samples > 1;
  runtime::Generator generator(config, run.checkpoint);
  int64_t beyond = 0, tokens = 0;
  TextOutput output;
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (uint32_t sample = 0; sample < static_cast<uint32_t>(samples); ++sample) {
      GeneratedText text(coder.tokenizer(), encoded[p], stops);
      bool begun = json;
      const auto begin = [&] {
        if (!begun) output.write((several ? heading(p, prompts.size(), sample, samples) : "") + prompts[p].text);
        begun = true;
      };
      generate.prompt = encoded[p];
      generate.sample = sample;
      generate.emit = [&](int32_t token) {
        begin();  // nothing stands before the refusal of a model that cannot
        const std::string piece = text.add(token);
        if (!json) output.write(piece);
        return !text.stopped();
      };
      const runtime::GeneratedTokens made = generator.generate(generate);
      begin();
      const std::string held = text.end();
      if (json) {
        nlohmann::ordered_json result{{"prompt", prompts[p].text}, {"prompt_tokens", encoded[p]}};
        if (several) result["sample"] = sample;
        result["text"] = text.text();
        result["tokens"] = made.tokens;
        result["end"] = end_name(made.end);
        // DEL and C1 stand in JSON as they are, unless it is ASCII.
        std::cout << result.dump(several ? -1 : 1, ' ', output.terminal(),
                                 nlohmann::ordered_json::error_handler_t::replace);
      } else {
        output.write(held);
        output.end();
      }
      std::cout << "\n" << std::flush;
      beyond += text.beyond(), tokens += static_cast<int64_t>(made.tokens.size());
    }
  }
  if (beyond > 0) {
    spdlog::warn(
        "{} of {} tokens are left out of the text: their ids are {} and more, which the tokenizer does not have",
        beyond, tokens, coder.tokenizer().vocab_size());
  }
  return 0;
}

}  // namespace zrt::tools
