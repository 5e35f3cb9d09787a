#include "runtime/train/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/indexed_format.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/resume.h"
#include "runtime/train/trainer.h"
#include "tools/commands/arguments.h"
#include "tools/commands/run_tokenizer.h"
#include "tools/commands/text_output.h"

namespace zrt::tools {
namespace {

namespace data = runtime::data;

// Ids of a vocabulary that nobody names mean no text, nor do those of a blend of which one dataset does not name it:
// `given`, if it is not "", must go with what the run's data says. `learned` is what the checkpoint says.
std::unique_ptr<data::Tokenizer> find_tokenizer(const runtime::Config& config, const std::string& given,
                                                const std::string& learned) {
  if (!given.empty()) {  // the checkpoint's, whatever has become of the data
    auto named = data::make_tokenizer(given);
    if (data::tokenizer_text(*named) == learned) return named;
  }
  std::vector<std::string> prefixes;
  for (const auto& source : config.data.train) prefixes.push_back(source.prefix);
  const auto trained = data::common_tokenizer(prefixes, config.model.vocab);
  const bool known = trained && trained->unnamed.empty();
  if (given.empty() && known) return data::open_tokenizer(*trained);
  if (auto bytes = data::make_tokenizer("bytes"); given.empty() && learned == data::tokenizer_text(*bytes))
    return bytes;
  if (given.empty()) {
    throw core::ConfigError(fmt::format(
        "which text the model's ids stand for is not known: {}, which would name the tokenizer. {}",
        prefixes.empty()
            ? "the run has no data.train"
            : fmt::format("there is no {}", data::meta_path(trained ? trained->unnamed : prefixes.front())),
        learned.empty()
            ? "Name it yourself: --tokenizer bytes, or --tokenizer FILE.model of SentencePiece or FILE.json of Hugging "
              "Face"
            : fmt::format("The checkpoint was trained with {}; name that with --tokenizer FILE.model", learned)));
  }
  auto tokenizer = data::make_tokenizer(given);
  if (trained && (tokenizer->name() != trained->name || tokenizer->xxh3() != trained->xxh3)) {
    throw core::ConfigError(
        fmt::format("--tokenizer is {} ('{}' {}), but dataset {} was made by '{}' {}; leave --tokenizer out", given,
                    tokenizer->name(), tokenizer->xxh3(), trained->prefix, trained->name, trained->xxh3));
  }
  if (tokenizer->vocab_size() > config.model.vocab) {
    throw core::ConfigError(
        fmt::format("--tokenizer {} has {} tokens but the model's vocabulary has {}: it is another's", given,
                    tokenizer->vocab_size(), config.model.vocab));
  }
  return tokenizer;
}

}  // namespace

std::unique_ptr<data::Tokenizer> choose_tokenizer(const runtime::Config& config, const std::string& given,
                                                  const std::string& learned) {
  auto tokenizer = find_tokenizer(config, given, learned);
  if (const std::string found = data::tokenizer_text(*tokenizer); !learned.empty() && found != learned) {
    throw core::ConfigError(
        fmt::format("the checkpoint was trained with the tokenizer {}, and {} is {}: its ids mean other text. {}",
                    learned, given.empty() ? "that of the run's data" : "--tokenizer", found,
                    given.empty() ? "The data was built again since; name the old tokenizer with --tokenizer"
                                  : "Name the one that the data was built with"));
  }
  return tokenizer;
}

int generate_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("prompt", po::value<std::string>()->default_value("The "), "text to continue")(
      "tokens", po::value<int64_t>()->default_value(200), "new tokens, at most")(
      "temperature", po::value<double>()->default_value(0.8), "0 takes the likeliest token")(
      "top-k", po::value<int64_t>()->default_value(40), "choose among the k likeliest; 0: all")(
      "seed", po::value<int64_t>()->default_value(1), "of the choices")("json", "print prompt and text as JSON")(
      "tokenizer", po::value<std::string>()->default_value("", "that of the run's data"),
      "bytes, a SentencePiece FILE.model, or a tokenizer.json of Hugging Face, where the data does not say");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt generate RUN [--prompt TEXT] [--tokens N]", options, {"RUN"}, values)) return 0;
  const runtime::RunPaths run = runtime::find_run(values["RUN"].as<std::string>());
  const runtime::Config config = runtime::load_resolved(run.config, config_settings(values));
  const runtime::checkpoint::Reader checkpoint(run.checkpoint, false);
  const std::string learned = runtime::trained_tokenizer(checkpoint.manifest().made_by);
  const auto tokenizer = choose_tokenizer(config, values["tokenizer"].as<std::string>(), learned);

  const std::string prompt = values["prompt"].as<std::string>();
  runtime::GenerateOptions generate;
  tokenizer->encode(prompt, generate.prompt);
  if (generate.prompt.empty()) generate.prompt.push_back(tokenizer->eod());
  generate.tokens = values["tokens"].as<int64_t>();
  generate.temperature = values["temperature"].as<double>();
  generate.top_k = values["top-k"].as<int64_t>();
  const auto seed = values["seed"].as<int64_t>();
  if (seed < 0) throw core::UsageError(fmt::format("--seed is {}; legal are 0 to 2^63 - 1", seed));
  generate.seed = static_cast<uint64_t>(seed);
  generate.stop_token = tokenizer->eod();
  if (generate.tokens < 1) throw core::UsageError(fmt::format("--tokens is {}; it must be positive", generate.tokens));
  if (!std::isfinite(generate.temperature) || generate.temperature < 0) {
    throw core::UsageError(fmt::format("--temperature is {}; legal are 0 and more", generate.temperature));
  }
  if (generate.top_k < 0)
    throw core::UsageError(fmt::format("--top-k is {}; legal are 0 (all) and more", generate.top_k));
  const bool json = values.count("json") > 0;
  // The whole is decoded at each token: a piece may depend on those before it. Ids that the model has beyond the
  // tokenizer's (padding of the vocabulary) decode to nothing and are counted.
  std::vector<int32_t> all = generate.prompt;
  size_t shown = tokenizer->decode(all).size();
  std::string text;
  int64_t beyond = 0;
  TextOutput output;
  bool begun = json;
  const auto begin = [&] {
    if (!begun) output.write(prompt);
    begun = true;
  };
  generate.emit = [&](int32_t token) {
    begin();  // nothing stands before the refusal of a model that cannot
    if (token >= tokenizer->vocab_size()) {
      ++beyond;
      return;
    }
    all.push_back(token);
    const std::string whole = tokenizer->decode(all);
    text += whole.substr(shown);
    if (!json) output.write(whole.substr(shown));
    shown = whole.size();
  };
  const auto tokens = runtime::generate(config, run.checkpoint, generate);
  begin();
  output.end();
  if (json) {
    const nlohmann::ordered_json result{{"prompt", prompt}, {"text", text}, {"tokens", tokens}};
    // DEL and C1 stand in JSON as they are, unless it is ASCII.
    std::cout << result.dump(1, ' ', output.terminal(), nlohmann::ordered_json::error_handler_t::replace);
  }
  std::cout << "\n";
  if (beyond > 0) {
    spdlog::warn(
        "{} of {} tokens are left out of the text: their ids are {} and more, which the tokenizer does not have",
        beyond, tokens.size(), tokenizer->vocab_size());
  }
  return 0;
}

}  // namespace zrt::tools
