#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "runtime/data/build.h"
#include "tools/commands/arguments.h"
#include "tools/commands/data_foreign.h"
#include "tools/commands/data_show.h"

namespace zrt::tools {
namespace {

namespace data = runtime::data;

// A live line on a terminal while text is read, cleared at the end.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\033[K";
  }
  std::function<void(const data::BuildProgress&)> hook() {
    if (!isatty(STDERR_FILENO)) return {};
    return [this](const data::BuildProgress& progress) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last_ < std::chrono::milliseconds(200)) return;
      last_ = now;
      shown_ = true;
      if (progress.scanning != scanning_) begun_ = now, scanning_ = progress.scanning;
      const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begun_).count());
      const std::string tokens = progress.scanning ? "" : fmt::format(", {} tokens", progress.tokens);
      std::cerr << fmt::format("\r\033[K{} {}  {} documents{}, {} MB, {:.1f} MB/s",
                               progress.scanning ? "reading" : "writing", core::printable(progress.file),
                               progress.documents, tokens, progress.bytes / 1000000,
                               1e-6 * static_cast<double>(progress.bytes) / seconds)
                << std::flush;
    };
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now(), begun_ = last_;  // of the pass
  bool scanning_ = true, shown_ = false;
};

void report_skipped(const std::vector<data::SkippedInput>& inputs) {
  for (const auto& skipped : inputs) spdlog::warn("skipped {}: {}", skipped.path, skipped.reason);
}

void report_damaged(const std::vector<data::DamagedText>& texts) {
  for (const auto& text : texts)
    spdlog::warn("{}: {} byte(s) are not UTF-8, the first at byte {}; they are in the data as they are", text.path,
                 text.bytes, text.first);
}

void report_bad_lines(const std::vector<data::BadLines>& files) {
  for (const auto& bad : files)
    spdlog::warn("{}: {} bad line(s) skipped, the first is line {}: {}", bad.path, bad.count, bad.first, bad.reason);
}

int64_t count_of(const std::vector<data::BadLines>& files) {
  int64_t count = 0;
  for (const auto& bad : files) count += bad.count;
  return count;
}

// Options of every command that reads text.
void add_line_options(po::options_description& options) {
  options.add_options()("field", po::value<std::string>(),
                        "of JSON lines (.jsonl, .ndjson, .json): the field whose text is a document; default: text")(
      "skip-bad", "leave out lines that are no JSON or lack the text, and say how many");
}

std::optional<std::string> field_of(const po::variables_map& values) {
  if (!values.count("field")) return std::nullopt;
  return values["field"].as<std::string>();
}

// Training takes fewer pieces than asked for from a short text, without a word.
void report_vocabulary(int64_t made, int64_t asked) {
  if (made >= asked) return;
  spdlog::warn(
      "the text gives a tokenizer of {} tokens, fewer than the {} asked for: a model.vocab of {} has no use "
      "for the rest",
      made, asked, asked);
}

// The folder, which make_tokenizer() takes.
std::string tokenizer_of_folder(const std::string& folder) {
  if (std::filesystem::is_regular_file(std::filesystem::path(folder) / "tokenizer.json")) return folder;
  throw core::UsageError(
      fmt::format("--chat is {}, which has no tokenizer.json: name the model's by --tokenizer FILE.json", folder));
}

constexpr const char* build_usage = "zrt data build --out PREFIX FILE…";
constexpr const char* tokenizer_usage = "zrt data tokenizer --out FILE.model --vocab N FILE…";

int build_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "PREFIX of the .bin/.idx pair; with --validation a folder")(
      "tokenizer", po::value<std::string>()->default_value("bytes"),
      "bytes: 256 byte values and an end-of-document id; FILE.model: a SentencePiece model; FILE.json: a "
      "tokenizer.json of Hugging Face, or a folder with one; train: one trained on the training text")(
      "eod", po::value<std::string>()->default_value(""),
      "the token of a tokenizer.json that ends documents, such as '<|endoftext|>', or its id; else the eos_token of a "
      "tokenizer_config.json beside it, or one known by its name")("vocab", po::value<int64_t>()->default_value(8192),
                                                                   "pieces of a tokenizer that is trained")(
      "chat", po::value<std::string>(),
      "lines are conversations: a folder of Hugging Face, whose chat template makes text of them, and whose tokenizer "
      "is "
      "taken where --tokenizer names none. PREFIX.counts.bin/.idx says which tokens count")(
      "template", "put the template of a tokenizer.json around each document, such as <s> or [CLS] and [SEP]")(
      "documents", po::value<std::string>()->default_value("file"),
      "of plain text: file: each file is a document; paragraph: each paragraph. Of JSON lines each line is one")(
      "validation", po::value<double>()->default_value(0), "fraction of the text held out")(
      "dedup", "leave out documents that occurred before, but for blanks at line ends and blank lines around them")(
      "language", po::value<std::string>()->default_value(""), "of the text, such as pt-br: evaluations name it")(
      "threads", po::value<int>(), "that tokenize; default: as many as there are cores. The result is the same")(
      "force", "replace a dataset and a tokenizer's model that are there already")("json", "print the result as JSON");
  add_line_options(options);
  po::variables_map values;
  if (!parse(args, build_usage, options, {"FILE"}, values, true)) return 0;
  if (!values.count("out")) throw core::UsageError(fmt::format("--out is missing; usage: {}", build_usage));
  data::BuildOptions build;
  build.inputs = values["FILE"].as<std::vector<std::string>>();
  build.out = values["out"].as<std::string>();
  build.tokenizer = values["tokenizer"].as<std::string>();
  if (values.count("chat")) {
    build.chat = values["chat"].as<std::string>();
    if (values["tokenizer"].defaulted()) build.tokenizer = tokenizer_of_folder(build.chat);
  }
  build.eod = values["eod"].as<std::string>();
  build.with_template = values.count("template") > 0;
  build.vocabulary = values["vocab"].as<int64_t>();
  if (!values["vocab"].defaulted() && build.tokenizer != "train") {
    throw core::UsageError(fmt::format(
        "--vocab is the size of a tokenizer that is trained (--tokenizer train); --tokenizer is '{}', whose "
        "size is known",
        build.tokenizer));
  }
  build.language = values["language"].as<std::string>();
  build.dedup = values.count("dedup") > 0;
  build.field = field_of(values);
  build.skip_bad = values.count("skip-bad") > 0;
  build.threads = values.count("threads") ? values["threads"].as<int>()
                                          : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 1024);
  if (build.threads < 1 || build.threads > 1024)
    throw core::UsageError(fmt::format("--threads is {}; legal are 1 to 1024", build.threads));
  build.force = values.count("force") > 0;
  const std::string documents = values["documents"].as<std::string>();
  if (documents != "file" && documents != "paragraph") {
    throw core::UsageError(fmt::format("--documents is '{}'; legal are file and paragraph", documents));
  }
  build.documents = documents == "file" ? data::Documents::file : data::Documents::paragraph;
  build.validation = values["validation"].as<double>();
  data::BuildResult result;
  {
    ProgressLine line;
    build.progress = line.hook();
    result = data::build_dataset(build);
  }
  report_skipped(result.skipped);
  report_damaged(result.damaged);
  report_bad_lines(result.bad_lines);
  if (build.tokenizer == "train") report_vocabulary(result.train.meta.vocabulary, build.vocabulary);
  if (values.count("json")) {
    nlohmann::ordered_json json{{"files", result.files}, {"train", part_json(result.train)}};
    if (build.dedup) json["duplicates"] = result.duplicates;
    if (build.skip_bad) json["bad_lines"] = count_of(result.bad_lines);
    if (result.validation) json["validation"] = part_json(*result.validation);
    std::cout << json.dump(1) << "\n";
    return 0;
  }
  std::cout << part_text(result.train);
  if (result.validation) std::cout << part_text(*result.validation);
  if (build.dedup) std::cout << fmt::format("{} documents left out that occurred before\n", result.duplicates);
  return 0;
}

int tokenizer_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "FILE.model to write")(
      "vocab", po::value<int64_t>()->default_value(8192),
      "pieces: 256 bytes, the newline, two signs, and learned ones")("force", "replace a file that is there already")(
      "json", "print the result as JSON");
  add_line_options(options);
  po::variables_map values;
  if (!parse(args, tokenizer_usage, options, {"FILE"}, values, true)) return 0;
  if (!values.count("out")) throw core::UsageError(fmt::format("--out is missing; usage: {}", tokenizer_usage));
  data::TokenizerOptions train;
  train.inputs = values["FILE"].as<std::vector<std::string>>();
  train.out = values["out"].as<std::string>();
  train.vocabulary = values["vocab"].as<int64_t>();
  train.force = values.count("force") > 0;
  train.field = field_of(values);
  train.skip_bad = values.count("skip-bad") > 0;
  data::TrainedTokenizer result;
  {
    ProgressLine line;
    train.progress = line.hook();
    result = data::train_tokenizer(train);
  }
  report_skipped(result.skipped);
  report_damaged(result.damaged);
  report_bad_lines(result.bad_lines);
  report_vocabulary(result.vocabulary, train.vocabulary);
  if (values.count("json")) {
    std::cout << nlohmann::ordered_json{{"file", train.out},
                                        {"vocabulary", result.vocabulary},
                                        {"bytes", result.bytes},
                                        {"xxh3", result.xxh3}}
                     .dump(1)
              << "\n";
  } else {
    std::cout << fmt::format("{}: {} tokens, trained on {} bytes, xxh3 {}\n", core::printable(train.out),
                             result.vocabulary, result.bytes, result.xxh3);
  }
  return 0;
}

}  // namespace

int data_command(const Args& args) {
  const std::string what = args.empty() ? "" : args[0];
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (what == "build") return build_command(rest);
  if (what == "tokenizer") return tokenizer_command(rest);
  if (what == "describe") return describe_command(rest);
  if (what == "import") return import_command(rest);
  if (what == "show") return show_command(rest);
  if (what == "--help" || what == "-h") {
    std::cout << "usage: " << build_usage << "\n       " << tokenizer_usage << "\n       " << describe_usage
              << "\n       " << import_usage << "\n       " << show_usage << "\neach takes --help and --json\n";
    return 0;
  }
  throw core::UsageError(fmt::format("zrt data '{}': legal are build, tokenizer, describe, import and show; usage: {}",
                                     what, build_usage));
}

}  // namespace zrt::tools
