#include "tools/commands/run_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/indexed_format.h"
#include "runtime/train/checkpoint/carried.h"
#include "runtime/train/data_identity.h"

namespace zrt::tools {
namespace {

namespace data = runtime::data;
namespace fs = std::filesystem;
using data::DatasetTokenizer;
using Opened = std::unique_ptr<data::Tokenizer>;

bool same(const data::Tokenizer& tokenizer, const DatasetTokenizer& trained) {
  return tokenizer.name() == trained.name && tokenizer.xxh3() == trained.xxh3;
}

std::vector<std::string> train_prefixes(const runtime::Config& config) {
  std::vector<std::string> prefixes;
  for (const auto& source : config.data.train) prefixes.push_back(source.prefix);
  return prefixes;
}

std::optional<DatasetTokenizer> trained_by(const runtime::Config& config) {
  return data::common_tokenizer(train_prefixes(config), config.model.vocab);
}

// The data's, with its end of documents unless another is wished.
Opened open_trained(DatasetTokenizer trained, const std::string& eod) {
  if (!eod.empty() && trained.name != data::tokenizer_json_name)
    return data::make_tokenizer(trained.file.empty() ? trained.name : trained.file, eod);  // refuses it
  if (!eod.empty()) trained.eod = eod;
  return data::open_tokenizer(trained);
}

void require_size(const data::Tokenizer& tokenizer, const std::string& source, int64_t vocabulary) {
  if (tokenizer.vocab_size() <= vocabulary) return;
  throw core::ConfigError(
      core::printable(fmt::format("{} has {} tokens but the model's vocabulary has {}: it is another's", source,
                                  tokenizer.vocab_size(), vocabulary)));
}

// The file of a tokenizer that the run carries, from the folder that it began with or of its data; "" where there is
// none.
std::string carried_file(const runtime::RunPaths& run) {
  const fs::path carried = run.config.parent_path() / runtime::checkpoint::carried_name;
  std::error_code failed;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::is_regular_file(carried / name, failed)) return (carried / name).string();
  }
  return "";
}

// The one that is named, with the data's end of documents where it is the data's.
Opened open_given(const runtime::Config& config, const std::string& learned, const TokenizerWish& wish) {
  Opened tokenizer = data::make_tokenizer(wish.given, wish.eod);
  std::optional<DatasetTokenizer> trained;
  try {
    trained = trained_by(config);
  } catch (const core::Error&) {
    // The checkpoint's goes, whatever has become of the data.
    if (data::tokenizer_text(*tokenizer) == learned) return tokenizer;
    throw;
  }
  if (trained && same(*tokenizer, *trained)) {
    const bool other_end = wish.eod.empty() && !trained->eod.empty() && tokenizer->eod_text() != trained->eod;
    return other_end ? data::make_tokenizer(wish.given, trained->eod) : std::move(tokenizer);
  }
  if (data::tokenizer_text(*tokenizer) == learned) return tokenizer;
  if (trained) {
    throw core::ConfigError(
        fmt::format("--tokenizer is {} ('{}' {}), but dataset {} was made by '{}' {}; leave --tokenizer out",
                    wish.given, tokenizer->name(), tokenizer->xxh3(), trained->prefix, trained->name, trained->xxh3));
  }
  require_size(*tokenizer, "--tokenizer " + wish.given, config.model.vocab);
  return tokenizer;
}

// Ids of a vocabulary that nobody names mean no text, nor do those of a blend of which one dataset does not name it.
// `learned` is what the checkpoint says.
Opened find_tokenizer(const runtime::Config& config, const runtime::RunPaths& run, const std::string& learned,
                      const TokenizerWish& wish) {
  if (!wish.given.empty()) return open_given(config, learned, wish);
  const auto trained = trained_by(config);
  if (trained && trained->unnamed.empty()) return open_trained(*trained, wish.eod);
  // Without data, or where it is gone and the checkpoint knows what it was.
  const bool carries = config.data.train.empty() || !learned.empty();
  if (const std::string file = carried_file(run); carries && !file.empty()) {
    Opened carried = data::make_tokenizer(file, wish.eod);
    require_size(*carried, file, config.model.vocab);
    if (learned.empty() || data::tokenizer_text(*carried) == learned) return carried;
  }
  if (const data::ByteTokenizer bytes; learned == data::tokenizer_text(bytes))
    return data::make_tokenizer(bytes.name(), wish.eod);
  throw core::ConfigError(fmt::format(
      "which text the model's ids stand for is not known: {}, which would name the tokenizer. {}",
      config.data.train.empty()
          ? "the run has no data.train"
          : fmt::format("there is no {}", data::meta_path(trained ? trained->unnamed : train_prefixes(config).front())),
      learned.empty()
          ? "Name it yourself: --tokenizer bytes, or --tokenizer FILE.model of SentencePiece or FILE.json of Hugging "
            "Face"
          : fmt::format("The checkpoint was trained with {}; name its file with --tokenizer", learned)));
}

struct Rule {
  bool with_template = false;
  std::string why;
};

Rule rule_of(const runtime::Config& config, const data::Tokenizer& tokenizer, const runtime::checkpoint::Json& made_by,
             const TokenizerWish& wish) {
  if (wish.with_template) return {*wish.with_template, *wish.with_template ? "--template" : "--no-template"};
  if (!data::has_template(tokenizer)) return {};
  if (const auto learned = runtime::trained_template(made_by)) {
    return {*learned, *learned ? "the data of the run was built with --template"
                               : "the data of the run was built without --template"};
  }
  if (config.data.train.empty())
    return {data::has_template(tokenizer), "the run has no data, and transformers' tokenizer adds it"};
  const auto trained = trained_by(config);
  const bool templated = trained && trained->templated;
  return {templated,
          fmt::format("data.train is {} --template", templated ? "built with" : "not known to be built with")};
}

std::string rule_text(const Rule& rule, const data::TextCoder& coder) {
  if (!data::has_template(coder.tokenizer())) return "";
  if (!rule.with_template) return fmt::format("texts go without the tokenizer's template: {}", rule.why);
  return fmt::format("texts begin with the tokenizer's template, ids [{}]: {}", fmt::join(coder.before(), ", "),
                     rule.why);
}

}  // namespace

void add_tokenizer_options(po::options_description& options, const std::string& of) {
  options.add_options()("tokenizer", po::value<std::string>(),
                        (of + "bytes, a SentencePiece FILE.model, or a tokenizer.json of Hugging Face, where neither "
                              "the run's data nor the folder it began with says")
                            .c_str())(
      "eod", po::value<std::string>(),
      (of + "the token of a tokenizer.json that ends documents, or its id; default: the data's, or the file's own")
          .c_str())("template",
                    (of + "put the tokenizer's template around texts, such as <s>, whatever the data had").c_str())(
      "no-template", (of + "leave it out; default: as the run's data was built, without data as transformers").c_str());
}

TokenizerWish tokenizer_wish(const po::variables_map& values) {
  const auto text = [&](const char* option) {
    return values.count(option) ? values[option].as<std::string>() : std::string();
  };
  TokenizerWish wish{text("tokenizer"), text("eod"), std::nullopt};
  const bool with = values.count("template") > 0, without = values.count("no-template") > 0;
  if (with && without) throw core::UsageError("--template and --no-template contradict each other: give one of them");
  if (with || without) wish.with_template = with;
  return wish;
}

RunTokenizer choose_tokenizer(const runtime::Config& config, const runtime::RunPaths& run,
                              const runtime::checkpoint::Json& made_by, const TokenizerWish& wish) {
  const std::string learned = runtime::trained_tokenizer(made_by);
  auto tokenizer = find_tokenizer(config, run, learned, wish);
  if (const std::string found = data::tokenizer_text(*tokenizer); !learned.empty() && found != learned) {
    throw core::ConfigError(
        fmt::format("the checkpoint was trained with the tokenizer {}, and {} is {}: its ids mean other text. {}",
                    learned, wish.given.empty() ? "that of the run's data" : "--tokenizer", found,
                    wish.given.empty() ? "The data was built again since; name the old tokenizer with --tokenizer"
                                       : "Name the one that the data was built with"));
  }
  const Rule rule = rule_of(config, *tokenizer, made_by, wish);
  data::TextCoder coder(std::move(tokenizer), rule.with_template);
  std::string text = rule_text(rule, coder);
  return {std::move(coder), std::move(text)};
}

}  // namespace zrt::tools
