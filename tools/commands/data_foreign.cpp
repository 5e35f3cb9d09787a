#include "tools/commands/data_foreign.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/foreign.h"
#include "runtime/data/llmc_dataset.h"

namespace zrt::tools {

namespace data = runtime::data;

std::string part_text(const runtime::data::BuiltPart& part) {
  const std::string files =
      core::printable(part.prefix) + (runtime::data::is_llmc_name(part.prefix) ? "" : ".bin/.idx");
  // Ids without a tokenizer have no text that is known.
  if (part.meta.tokenizer.empty())
    return fmt::format("{}: {} documents, {} tokens\n", files, part.meta.documents, part.meta.tokens);
  if (const auto counted = part.meta.counted_tokens) {
    return fmt::format(
        "{}: {} documents, {} tokens of {} bytes, of which {} ({:.1f} %) count\n", files, part.meta.documents,
        part.meta.tokens, part.meta.bytes, *counted,
        100 * static_cast<double>(*counted) / static_cast<double>(std::max<int64_t>(part.meta.tokens, 1)));
  }
  return fmt::format("{}: {} documents, {} tokens of {} bytes, unigram entropy {:.4f} bits per byte\n", files,
                     part.meta.documents, part.meta.tokens, part.meta.bytes, part.meta.unigram_entropy);
}

nlohmann::ordered_json part_json(const runtime::data::BuiltPart& part) {
  auto json = nlohmann::ordered_json::parse(runtime::data::to_json(part.meta));
  json["prefix"] = part.prefix;
  return json;
}

namespace {

// A live line on a terminal, cleared at the end.
class TokenLine {
 public:
  ~TokenLine() {
    if (shown_) std::cerr << "\r\033[K";
  }
  data::OnTokens hook() {
    if (!isatty(STDERR_FILENO)) return {};
    return [this](int64_t tokens, int64_t all) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last_ < std::chrono::milliseconds(200)) return;
      last_ = now, shown_ = true;
      const double seconds = std::chrono::duration<double>(now - begun_).count();
      std::cerr << fmt::format("\r\033[K{} of {} tokens, {:.1f} million a second", tokens, all,
                               1e-6 * static_cast<double>(tokens) / seconds)
                << std::flush;
    };
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now(), last_ = begun_;
  bool shown_ = false;
};

void print(const data::BuiltPart& part, bool json) {
  if (!json)
    std::cout << part_text(part);
  else if (part.meta.tokenizer.empty())
    std::cout << nlohmann::ordered_json{{"documents", part.meta.documents},
                                        {"tokens", part.meta.tokens},
                                        {"vocabulary", part.meta.vocabulary},
                                        {"prefix", part.prefix}}
                     .dump(1)
              << "\n";
  else
    std::cout << part_json(part).dump(1) << "\n";
}

template <class T>
std::optional<T> optional_of(const po::variables_map& values, const char* name) {
  if (!values.count(name)) return std::nullopt;
  return values[name].as<T>();
}

int64_t id_of(const std::string& text) {
  int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return id;
  throw core::UsageError(fmt::format("--eod is '{}'; without --tokenizer legal are ids, such as 50256", text));
}

constexpr const char* tokenizer_help = "that made the ids, as of zrt data build: bytes or its file";

}  // namespace

int describe_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("tokenizer", po::value<std::string>(), tokenizer_help)(
      "eod", po::value<std::string>()->default_value(""), "the token of a tokenizer.json that ends documents")(
      "language", po::value<std::string>()->default_value(""), "of the text, such as pt-br: evaluations name it")(
      "force", "replace a description and a tokenizer's file that are there already")("json",
                                                                                      "print the result as JSON");
  po::variables_map values;
  if (!parse(args, describe_usage, options, {"PREFIX"}, values)) return 0;
  if (!values.count("tokenizer"))
    throw core::UsageError(fmt::format("--tokenizer is missing; usage: {}", describe_usage));
  data::DescribeOptions describe;
  describe.prefix = values["PREFIX"].as<std::string>();
  describe.tokenizer = values["tokenizer"].as<std::string>();
  describe.eod = values["eod"].as<std::string>();
  describe.language = values["language"].as<std::string>();
  describe.force = values.count("force") > 0;
  data::BuiltPart part;
  {
    TokenLine line;
    describe.progress = line.hook();
    part = data::describe_dataset(describe);
  }
  print(part, values.count("json") > 0);
  return 0;
}

int import_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "PREFIX of the .bin/.idx pair")(
      "ids", po::value<std::string>()->default_value("u16"), "u16 or u32: the size of an id in the files")(
      "tokenizer", po::value<std::string>(), tokenizer_help)("vocab", po::value<int64_t>(),
                                                             "ids that there are, where the tokenizer is not at hand")(
      "eod", po::value<std::string>(),
      "what ends a document: an id, by default a file is a document; with --tokenizer a token of a tokenizer.json")(
      "language", po::value<std::string>()->default_value(""), "of the text, such as pt-br: evaluations name it")(
      "force", "replace a dataset and a tokenizer's file that are there already")("json", "print the result as JSON");
  po::variables_map values;
  if (!parse(args, import_usage, options, {"FILE"}, values, true)) return 0;
  if (!values.count("out")) throw core::UsageError(fmt::format("--out is missing; usage: {}", import_usage));
  const std::string ids = values["ids"].as<std::string>();
  if (ids != "u16" && ids != "u32") throw core::UsageError(fmt::format("--ids is '{}'; legal are u16 and u32", ids));
  data::ImportOptions import;
  import.inputs = values["FILE"].as<std::vector<std::string>>();
  import.out = values["out"].as<std::string>();
  import.id_bytes = ids == "u16" ? 2 : 4;
  import.tokenizer = optional_of<std::string>(values, "tokenizer").value_or("");
  import.vocabulary = optional_of<int64_t>(values, "vocab");
  const std::string eod = optional_of<std::string>(values, "eod").value_or("");
  if (!import.tokenizer.empty()) {
    import.eod_token = eod;
  } else if (!eod.empty()) {
    import.eod = id_of(eod);
  }
  import.language = values["language"].as<std::string>();
  if (import.tokenizer.empty() && !import.language.empty())
    throw core::UsageError("--language stands in the description, which needs --tokenizer");
  import.force = values.count("force") > 0;
  data::BuiltPart part;
  {
    TokenLine line;
    import.progress = line.hook();
    part = data::import_ids(import);
  }
  print(part, values.count("json") > 0);
  return 0;
}

}  // namespace zrt::tools
