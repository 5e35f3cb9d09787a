// Files that go with a model beside its weights: those of its tokenizer, its template of conversations, its settings of
// generation, and config.json, of which the special ids count. A run keeps them in RUN/carried, and an export gets
// them.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime::checkpoint {

inline constexpr const char* carried_name = "carried";  // the folder, in that of a run

// Contents by name, which for templates beside the main one has the folder additional_chat_templates/.
using CarriedFiles = std::map<std::string, std::string>;

// Those that the folder holds. `warn`, which may be null, hears of one that is a pointer of Git LFS or too large, which
// is left. Throws DataError for one that cannot be read.
CarriedFiles read_carried(const std::filesystem::path& folder,
                          const std::function<void(const std::string&)>& warn = nullptr);

// Says whether a tokenizer can be made of them.
bool has_tokenizer(const CarriedFiles& files);

// Writes one of them, with the folder that its name has.
void write_below(const std::filesystem::path& folder, const std::string& name, const std::string& text);

// Makes the new folder with these files. It appears under its name when all of it is on disk. Does nothing without
// files.
void write_carried(const std::filesystem::path& folder, const CarriedFiles& files);

// Those of the run whose checkpoint is in RUN/checkpoints; nothing where it has none.
CarriedFiles carried_by_run(const std::filesystem::path& checkpoint);

// Gives config.json of an export what the carried one says beside the model: special ids, where it has none of its own
// (what that leaves out is left out), and how long texts a model with rotary positions reads, where it was trained on
// shorter ones.
void take_settings(const CarriedFiles& files, Json& config);

}  // namespace zrt::runtime::checkpoint
