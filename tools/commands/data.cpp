#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "models/data/build.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {
namespace {

namespace data = models::data;

std::string part_text(const data::BuiltPart& part) {
  return fmt::format("{}.bin/.idx: {} documents, {} tokens of {} bytes, unigram entropy {:.4f} bits per byte\n",
                     part.prefix, part.meta.documents, part.meta.tokens, part.meta.bytes, part.meta.unigram_entropy);
}

nlohmann::ordered_json part_json(const data::BuiltPart& part) {
  auto json = nlohmann::ordered_json::parse(data::to_json(part.meta));
  json["prefix"] = part.prefix;
  return json;
}

}  // namespace

int data_command(const Args& args) {
  if (args.empty() || (args[0] != "build" && args[0] != "--help" && args[0] != "-h")) {
    throw core::UsageError("zrt data needs the word `build`; usage: zrt data build --out PREFIX FILE…");
  }
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "PREFIX of the .bin/.idx pair; with --validation a folder")(
      "tokenizer", po::value<std::string>()->default_value("bytes"),
      "bytes: 256 byte values and an end-of-document id")("documents", po::value<std::string>()->default_value("file"),
                                                          "file: each file is a document; paragraph: each paragraph")(
      "validation", po::value<double>()->default_value(0), "fraction of the text held out")("json",
                                                                                            "print the result as JSON");
  po::variables_map values;
  const Args rest(args[0] == "build" ? args.begin() + 1 : args.begin(), args.end());
  if (!parse(rest, "zrt data build --out PREFIX FILE…", options, {"FILE"}, values, true)) return 0;
  if (!values.count("out")) throw core::UsageError("--out is missing; usage: zrt data build --out PREFIX FILE…");
  data::BuildOptions build;
  build.inputs = values["FILE"].as<std::vector<std::string>>();
  build.out = values["out"].as<std::string>();
  build.tokenizer = values["tokenizer"].as<std::string>();
  const std::string documents = values["documents"].as<std::string>();
  if (documents != "file" && documents != "paragraph") {
    throw core::UsageError(fmt::format("--documents is '{}'; legal are file and paragraph", documents));
  }
  build.documents = documents == "file" ? data::Documents::file : data::Documents::paragraph;
  build.validation = values["validation"].as<double>();
  auto last = std::chrono::steady_clock::now();
  bool shown = false;
  if (isatty(STDERR_FILENO)) {
    build.progress = [&](const data::BuildProgress& progress) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last < std::chrono::milliseconds(200)) return;
      last = now;
      shown = true;
      std::cerr << fmt::format("\r\033[K{} {}  {} MB", progress.scanning ? "measuring" : "writing", progress.file,
                               progress.bytes / 1000000)
                << std::flush;
    };
  }
  const data::BuildResult result = data::build_dataset(build);
  if (shown) std::cerr << "\r\033[K";
  for (const auto& skipped : result.skipped) spdlog::warn("skipped {}: {}", skipped.path, skipped.reason);
  if (values.count("json")) {
    nlohmann::ordered_json json{{"files", result.files}, {"train", part_json(result.train)}};
    if (result.validation) json["validation"] = part_json(*result.validation);
    std::cout << json.dump(1) << "\n";
    return 0;
  }
  std::cout << part_text(result.train);
  if (result.validation) std::cout << part_text(*result.validation);
  return 0;
}

}  // namespace zrt::tools
