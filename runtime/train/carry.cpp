#include "runtime/train/carry.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/held_folder.h"
#include "core/printable.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/sentencepiece_fields.h"
#include "runtime/data/token_texts.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/data_identity.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using checkpoint::CarriedFiles;
using checkpoint::Json;

constexpr uint64_t largest_tokenizer = uint64_t{1} << 28;

CarriedFiles files_of(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  if (checkpoint::is_hugging_face(folder)) return checkpoint::read_carried(folder, warn);
  const fs::path kept = folder / checkpoint::carried_name;
  return fs::is_directory(kept) ? checkpoint::read_carried(kept, warn) : checkpoint::carried_by_run(folder);
}

CarriedFiles files_of_start(const Config& config, const checkpoint::Reader* resumed,
                            const std::function<void(const std::string&)>& warn) {
  CarriedFiles files;
  if (resumed) {
    const bool adapters = resumed->plain() && !resumed->base().empty();
    if (adapters) files = files_of(resumed->base(), warn);
    if (!adapters)
      files = resumed->plain() ? files_of(resumed->folder(), warn) : checkpoint::carried_by_run(resumed->folder());
  }
  if (files.empty() && !config.model.from.empty() && fs::is_directory(config.model.from)) {
    files = files_of(config.model.from, warn);
  }
  return files;
}

std::optional<data::DatasetTokenizer> data_tokenizer(const Config& config) {
  std::vector<std::string> prefixes;
  for (const DataSource& source : config.data.train) prefixes.push_back(source.prefix);
  return data::common_tokenizer(prefixes, config.model.vocab);
}

// Returns the name under which transformers looks for a tokenizer's file.
std::string file_name(const fs::path& file) {
  return file.extension() == ".json" ? "tokenizer.json" : "tokenizer.model";
}

std::string hash_of(const std::string& text) {
  core::Hash hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

// The text of an id in a tokenizer.json: in its added tokens, or in the vocabulary.
std::string text_of_id(const Json& tokenizer, int64_t id) {
  for (const Json& token : tokenizer.value("added_tokens", Json::array())) {
    if (token.value("id", int64_t{-1}) == id) return token.value("content", std::string());
  }
  const Json model = tokenizer.value("model", Json::object());
  const Json vocabulary = model.is_object() ? model.value("vocab", Json()) : Json();
  if (vocabulary.is_object()) {
    for (const auto& [text, number] : vocabulary.items()) {
      if (number == id) return text;
    }
  }
  return "";
}

// The tokenizer of the data as a folder of Hugging Face has it.
CarriedFiles files_of_data(const data::DatasetTokenizer& from, int64_t sequence) {
  CarriedFiles files;
  const std::string name = file_name(from.file);
  const int64_t end = data::open_tokenizer(from)->eod();
  std::string& text = files[name] = core::read_text(from.file, largest_tokenizer);
  Json settings{{"model_max_length", sequence}, {"clean_up_tokenization_spaces", false}};
  if (name == "tokenizer.json") {
    settings["tokenizer_class"] = "PreTrainedTokenizerFast";
    const Json parsed = Json::parse(text, nullptr, false);
    if (const std::string word = parsed.is_object() ? text_of_id(parsed, end) : ""; !word.empty()) {
      settings["eos_token"] = word;
    }
  } else {
    settings["tokenizer_class"] = "LlamaTokenizer";
    settings["add_prefix_space"] = data::read_model_fields(text, from.file).add_dummy_prefix;
    settings["add_bos_token"] = settings["add_eos_token"] = settings["legacy"] = false;
    settings["bos_token"] = nullptr;  // else it would be an id that the model does not have
  }
  files["tokenizer_config.json"] = settings.dump(2) + "\n";
  files["config.json"] =
      Json{{"bos_token_id", nullptr}, {"eos_token_id", end}, {"pad_token_id", nullptr}}.dump(2) + "\n";
  return files;
}

// Texts of the data's tokenizer; nothing where its file is not at hand, or is of another kind.
std::optional<data::TokenTexts> texts_of(const data::DatasetTokenizer& data) {
  if (data.name == data::ByteTokenizer().name()) return data::byte_texts();
  if (data.file.empty() || !fs::exists(data.file)) return std::nullopt;
  return data::read_token_texts(file_name(data.file), core::read_text(data.file, largest_tokenizer));
}

enum class Match : uint8_t { same, similar, unknown, other };
struct Comparison {
  Match match = Match::unknown;
  std::string text;  // how the two differ
};

// The folder's file of the data's kind counts, else whichever can be read.
Comparison compare(const CarriedFiles& files, const data::DatasetTokenizer& data) {
  const std::string ours = data.file.empty() ? "" : file_name(data.file);
  const auto same_kind = files.find(ours);
  if (same_kind != files.end() && hash_of(same_kind->second) == data.xxh3) return {Match::same, ""};
  Comparison unknown{Match::unknown, fmt::format("by {}, which cannot be compared with the folder's", data.name)};
  if (same_kind != files.end()) {
    unknown.text =
        fmt::format("by another {} (XXH3 {}) than the folder's ({})", ours, data.xxh3, hash_of(same_kind->second));
  }
  const auto made_by = texts_of(data);
  if (!made_by) return unknown;
  std::vector<std::string> names{ours};
  for (const auto& file : files) names.push_back(file.first);
  for (const std::string& name : names) {
    const auto found = files.find(name);
    const auto folder = found == files.end() ? std::nullopt : data::read_token_texts(name, found->second);
    if (!folder) continue;
    if (const std::string token = data::different_token(*made_by, *folder); !token.empty()) {
      return {Match::other, "by another tokenizer than the folder's: " + token};
    }
    if (made_by->texts.size() == folder->texts.size()) return {Match::same, ""};
    return {Match::similar, fmt::format("by {} of {} tokens, and the folder's {} has {}, of which those that both have "
                                        "are the same",
                                        made_by->kind, made_by->texts.size(), name, folder->texts.size())};
  }
  return unknown;
}

// Weights of a folder know what its ids mean. Where only the folder's sizes were taken, the data's tokenizer takes the
// place of its.
void settle_tokenizer(const Config& config, const data::DatasetTokenizer& data, bool learned, CarriedFiles& files,
                      const std::function<void(const std::string&)>& warn) {
  const Comparison found = compare(files, data);
  if (found.match == Match::same) return;
  const std::string made = fmt::format("the data {} was made {}", data.prefix, found.text);
  if (found.match != Match::other) {
    return warn(made +
                ": where ids differ, the model reads other text than was written. Build the data with the folder's "
                "file, or see that both are alike");
  }
  if (learned) {
    throw core::DataError(core::printable(
        made +
        ". The weights would read other text than was written. Build the data with the folder's tokenizer; to train "
        "its "
        "weights on other ids nevertheless, start from a copy of the folder without files of a tokenizer"));
  }
  warn(made +
       "; as the weights are new, the run and its exports take the data's, and no file of a tokenizer, template or "
       "settings of generation from model.from");
  files.clear();
  if (!data.file.empty()) files = files_of_data(data, config.model.sequence);
}

// Says whether the run that keeps its files there goes on from a checkpoint of its own.
bool goes_on(const checkpoint::Reader* resumed, const fs::path& carried) {
  if (resumed == nullptr || resumed->plain()) return false;
  const fs::path run = fs::weakly_canonical(carried).parent_path();
  for (fs::path folder = fs::weakly_canonical(resumed->folder()); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder == run) return true;
  }
  return false;
}

}  // namespace

void carry_files(const Config& config, const checkpoint::Reader* resumed, const fs::path& to,
                 const std::function<void(const std::string&)>& warn) {
  core::refuse_special(to);
  if (fs::exists(to)) {
    if (goes_on(resumed, to)) return;
    fs::remove_all(to);  // of another run that never came to a checkpoint
  }
  CarriedFiles files = files_of_start(config, resumed, warn);
  if (const auto data = data_tokenizer(config)) {
    if (checkpoint::has_tokenizer(files)) {
      // A run's own checkpoint is compared with its data already.
      const bool named = resumed != nullptr && !trained_tokenizer(resumed->manifest().made_by).empty();
      if (!named) settle_tokenizer(config, *data, resumed != nullptr, files, warn);
    } else if (!data->file.empty()) {
      files.merge(files_of_data(*data, config.model.sequence));
    }
  }
  checkpoint::write_carried(to, files);
}

}  // namespace zrt::runtime
