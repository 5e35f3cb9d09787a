// Tells people what the key table says of keys: `zrt config` and docs/config.md.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime {

struct KeyDoc {
  std::string path, name;
  std::string of;  // "optimizer.type Adam, AdamW": who alone reads the key; "": every run
  std::string alias;
  std::string legal;     // "an integer from 1 to 4096 or null"
  std::string fallback;  // as JSON; "": the key has none
  std::string handling;  // "implemented", "no effect" or "refused"
  std::string changes;   // "memory and time"; "" of sections
  std::string help;
  bool section = false;  // whether other keys lie below it
};

struct SectionDoc {
  std::string path;  // "": the top level
  std::string of;    // of all its keys, where the section has several forms
  std::string help;
  bool ours = false;  // DeepSpeed ignores it
  std::vector<KeyDoc> keys;
};

const std::vector<SectionDoc>& key_docs();  // in the order of config.resolved.json

// The keys of that path, by name or alias: several where types of optimizers or schedules each have one.
std::vector<KeyDoc> find_key_docs(std::string_view path);
std::string suggest_path(std::string_view path);  // for one that is neither key nor section: what may have been meant

std::string config_page();  // docs/config.md

}  // namespace zrt::runtime
