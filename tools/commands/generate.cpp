#include "runtime/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/data/dataset_meta.h"
#include "models/data/tokenizer.h"
#include "runtime/resume.h"
#include "runtime/resume.h"
#include "runtime/trainer.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

int generate_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("prompt", po::value<std::string>()->default_value("The "), "text to continue")(
      "tokens", po::value<int64_t>()->default_value(200), "new tokens, at most")(
      "temperature", po::value<double>()->default_value(0.8), "0 takes the likeliest token")(
      "top-k", po::value<int64_t>()->default_value(40), "choose among the k likeliest; 0: all")(
      "seed", po::value<uint64_t>()->default_value(1), "of the choices")("json", "print prompt and text as JSON");
  po::variables_map values;
  if (!parse(args, "zrt generate RUN [--prompt TEXT] [--tokens N]", options, {"RUN"}, values)) return 0;
  const runtime::RunPaths run = runtime::find_run(values["RUN"].as<std::string>());
  const runtime::Config config = runtime::load_resolved(run.config);
  std::string tokenizer_name = "bytes";
  if (!config.data.train.empty()) {
    const auto meta = models::data::read_meta(config.data.train[0].prefix);
    if (meta) tokenizer_name = meta->tokenizer;
  }
  const auto tokenizer = models::data::make_tokenizer(tokenizer_name);

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
  // Ids that the model has beyond the tokenizer's (padding of the vocabulary) decode to nothing.
  auto decode = [&](int32_t token) {
    return token < tokenizer->vocab_size() ? tokenizer->decode(std::span(&token, 1)) : std::string();
  };
  std::string text;
  if (!json) std::cout << prompt << std::flush;
  generate.emit = [&](int32_t token) {
    const std::string piece = decode(token);
    text += piece;
    if (!json) std::cout << piece << std::flush;
  };
  const auto tokens = runtime::generate(config, run.checkpoint, generate);
  if (json) {
    const nlohmann::ordered_json result{{"prompt", prompt}, {"text", text}, {"tokens", tokens}};
    std::cout << result.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  std::cout << "\n";
  return 0;
}

}  // namespace zrt::tools
