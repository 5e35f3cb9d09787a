#include "runtime/train/checkpoint/carried.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/lfs_pointer.h"
#include "core/printable.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t largest_file = uint64_t{1} << 28;

// A tokenizer is made of one of these; vocab.json needs merges.txt.
constexpr const char* tokenizers[] = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"};
constexpr const char* others[] = {
    "config.json", "generation_config.json",  "tokenizer_config.json", "added_tokens.json",
    "merges.txt",  "special_tokens_map.json", "chat_template.jinja",   "chat_template.json"};

constexpr const char* special_ids[] = {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id"};

// A folder of templates beside chat_template.jinja, each NAME.jinja.
constexpr const char* templates = "additional_chat_templates";
constexpr size_t most_templates = 1000;

void read_file(const fs::path& folder, const std::string& name, const std::function<void(const std::string&)>& warn,
               CarriedFiles& files) {
  const fs::path path = folder / name;
  if (!fs::exists(path)) return;
  const auto leave = [&](const std::string& why) {
    if (warn)
      warn(core::printable(fmt::format("{}: is left and will be missing in an export: {}", path.string(), why)));
  };
  if (const uint64_t bytes = fs::file_size(path); bytes > largest_file) {
    return leave(fmt::format("it has {} bytes, and files that go with a model have {} at most", bytes, largest_file));
  }
  std::string text = core::read_bytes(path, largest_file);
  if (core::is_lfs_pointer(text)) return leave(fmt::format("it {}", core::lfs_pointer_reason));
  files[name] = std::move(text);
}

}  // namespace

CarriedFiles read_carried(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  CarriedFiles files;
  for (const char* name : tokenizers) read_file(folder, name, warn, files);
  for (const char* name : others) read_file(folder, name, warn, files);
  if (!fs::is_directory(folder / templates)) return files;
  size_t found = 0;
  for (const auto& entry : fs::directory_iterator(folder / templates)) {
    if (entry.path().extension() != ".jinja" || !entry.is_regular_file()) continue;
    if (++found > most_templates) {
      throw core::DataError(
          core::printable(fmt::format("{}: has more than {} templates; remove those that are not needed",
                                      (folder / templates).string(), most_templates)));
    }
    read_file(folder, std::string(templates) + "/" + entry.path().filename().string(), warn, files);
  }
  return files;
}

bool has_tokenizer(const CarriedFiles& files) {
  return std::any_of(std::begin(tokenizers), std::end(tokenizers), [&](const std::string& name) {
    return files.contains(name) && (name != "vocab.json" || files.contains("merges.txt"));
  });
}

void write_below(const fs::path& folder, const std::string& name, const std::string& text) {
  if (name.find('/') != std::string::npos) core::make_folder((folder / name).parent_path());
  core::write_durably(folder / name, text);
}

void write_carried(const fs::path& folder, const CarriedFiles& files) {
  if (files.empty()) return;
  const fs::path temporary = folder.parent_path() / ("." + folder.filename().string() + ".tmp");  // nobody else's
  fs::remove_all(temporary);
  core::make_folder(temporary);
  try {
    for (const auto& [name, text] : files) write_below(temporary, name, text);
    core::rename_path(temporary, folder);
    core::sync_folder(folder.parent_path());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

CarriedFiles carried_by_run(const fs::path& checkpoint) {
  const fs::path run = (fs::absolute(checkpoint) / "").lexically_normal().parent_path().parent_path().parent_path();
  return fs::is_directory(run / carried_name) ? read_carried(run / carried_name) : CarriedFiles();
}

void take_settings(const CarriedFiles& files, Json& config) {
  const auto found = files.find("config.json");
  if (found == files.end()) return;
  const Json theirs = parse_strict_json(found->second, "the carried config.json", 16);
  if (!theirs.is_object()) throw core::DataError("the carried config.json is no JSON object");
  for (const char* key : special_ids) {
    if (config.contains(key) && !config[key].is_null()) continue;
    if (theirs.contains(key)) {
      config[key] = theirs[key];
    } else {
      config.erase(key);  // transformers' default, as there
    }
  }
  constexpr const char* reach = "max_position_embeddings";
  const bool rotary = config.contains("rope_theta") || config.contains("rope_parameters");
  if (!rotary || !config.contains(reach) || !theirs.contains(reach) || !theirs[reach].is_number_integer()) return;
  if (theirs[reach] > config[reach]) config[reach] = theirs[reach];
}

}  // namespace zrt::runtime::checkpoint
