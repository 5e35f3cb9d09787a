#include "runtime/train/carry.h"

#include <fmt/format.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/held_folder.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/sentencepiece_fields.h"
#include "runtime/train/checkpoint/hugging_face.h"

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

void compare(const CarriedFiles& files, const data::DatasetTokenizer& data,
             const std::function<void(const std::string&)>& warn) {
  const auto found = files.find(file_name(data.file));
  if (found == files.end() || hash_of(found->second) == data.xxh3) return;
  warn(
      fmt::format("the data {} was made by another {} (XXH3 {}) than the one of the model ({}): where ids differ, the "
                  "model reads other text than was written. Build the data with that file, or see that both are alike",
                  data.prefix, found->first, data.xxh3, hash_of(found->second)));
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
  const auto data = data_tokenizer(config);
  if (data && !data->file.empty()) {
    if (checkpoint::has_tokenizer(files)) {
      compare(files, *data, warn);
    } else {
      files.merge(files_of_data(*data, config.model.sequence));
    }
  }
  checkpoint::write_carried(to, files);
}

}  // namespace zrt::runtime
