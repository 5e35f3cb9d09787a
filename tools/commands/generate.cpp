#include "runtime/train/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/data/dataset_tokenizer.h"
#include "runtime/train/resume.h"
#include "runtime/train/trainer.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

int generate_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("prompt", po::value<std::string>()->default_value("The "), "text to continue")(
      "tokens", po::value<int64_t>()->default_value(200), "new tokens, at most")(
      "temperature", po::value<double>()->default_value(0.8), "0 takes the likeliest token")(
      "top-k", po::value<int64_t>()->default_value(40), "choose among the k likeliest; 0: all")(
      "seed", po::value<uint64_t>()->default_value(1), "of the choices")("json", "print prompt and text as JSON");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt generate RUN [--prompt TEXT] [--tokens N]", options, {"RUN"}, values)) return 0;
  const runtime::RunPaths run = runtime::find_run(values["RUN"].as<std::string>());
  const runtime::Config config = runtime::load_resolved(run.config, config_settings(values));
  std::vector<std::string> prefixes;
  for (const auto& source : config.data.train) prefixes.push_back(source.prefix);
  const auto trained = models::data::common_tokenizer(prefixes, config.model.vocab);
  const auto tokenizer = trained ? models::data::open_tokenizer(*trained) : models::data::make_tokenizer("bytes");

  const std::string prompt = values["prompt"].as<std::string>();
  runtime::GenerateOptions generate;
  tokenizer->encode(prompt, generate.prompt);
  if (generate.prompt.empty()) generate.prompt.push_back(tokenizer->eod());
  generate.tokens = values["tokens"].as<int64_t>();
  generate.temperature = values["temperature"].as<double>();
  generate.top_k = values["top-k"].as<int64_t>();
  generate.seed = values["seed"].as<uint64_t>();
  generate.stop_token = tokenizer->eod();
  if (generate.tokens < 1) throw core::UsageError(fmt::format("--tokens is {}; it must be positive", generate.tokens));
  if (!std::isfinite(generate.temperature) || generate.temperature < 0) {
    throw core::UsageError(fmt::format("--temperature is {}; legal are 0 and more", generate.temperature));
  }
  if (generate.top_k < 0)
    throw core::UsageError(fmt::format("--top-k is {}; legal are 0 (all) and more", generate.top_k));
  const bool json = values.count("json") > 0;
  // The whole is decoded at each token: a piece may depend on those before it. Ids that the model has beyond the
  // tokenizer's (padding of the vocabulary) decode to nothing.
  std::vector<int32_t> all = generate.prompt;
  size_t shown = tokenizer->decode(all).size();
  std::string text;
  bool begun = json;
  const auto begin = [&] {
    if (!begun) std::cout << prompt << std::flush;
    begun = true;
  };
  generate.emit = [&](int32_t token) {
    begin();  // nothing stands before the refusal of a model that cannot
    if (token < tokenizer->vocab_size()) all.push_back(token);
    const std::string whole = tokenizer->decode(all);
    text += whole.substr(shown);
    if (!json) std::cout << whole.substr(shown) << std::flush;
    shown = whole.size();
  };
  const auto tokens = runtime::generate(config, run.checkpoint, generate);
  begin();
  if (json) {
    const nlohmann::ordered_json result{{"prompt", prompt}, {"text", text}, {"tokens", tokens}};
    std::cout << result.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  std::cout << "\n";
  return 0;
}

}  // namespace zrt::tools
