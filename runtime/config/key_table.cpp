#include "runtime/config/key_table.h"

#include <algorithm>

#include "core/keys/text.h"
#include "runtime/config/other_names.h"

namespace zrt::runtime::configuration {

std::span<const Section> root_sections();
std::span<const Section> optimizer_sections();
std::span<const Section> named_schedule_sections();
std::span<const Section> engine_sections();
std::span<const Section> zero_sections();
std::span<const Section> services_sections();
std::span<const Section> model_features_sections();
std::span<const Section> own_sections();
std::span<const Section> pseudo_to_real_sections();

const std::vector<Section>& sections() {
  static const std::vector<Section> all = [] {
    std::vector<Section> result;
    // The order of config.resolved.json.
    for (const auto part :
         {root_sections(), zero_sections(), optimizer_sections(), named_schedule_sections(), engine_sections(),
          services_sections(), model_features_sections(), own_sections(), pseudo_to_real_sections()}) {
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }();
  return all;
}

const Section* find_section(std::string_view path, std::string_view variant) {
  for (const Section& section : sections()) {
    if (section.path == path && section.variant == variant) return &section;
  }
  return nullptr;
}

const Key* find_key(const Section& section, std::string_view name) {
  const auto found = [](const Section& where, std::string_view wanted) -> const Key* {
    for (const Key& key : where.keys) {
      if (key.name == wanted || (key.alias != nullptr && key.alias == wanted)) return &key;
    }
    return nullptr;
  };
  if (const Key* key = found(section, name)) return key;
  // DeepSpeed's keys and our own share the top level.
  const std::string_view path = section.path;
  return path.empty() && section.parser != Parser::own ? found(*find_section("", "zrt"), name) : nullptr;
}

std::string key_path(const Section& section, std::string_view name) {
  const std::string path = section.path;
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

bool implemented(const Section& section) {
  return std::any_of(section.keys.begin(), section.keys.end(),
                     [](const Key& key) { return key.handling == Handling::implemented; });
}

void warn_without_effect(Values& values, const Value& value) {
  const size_t dot = value.path.rfind('.');
  const Section* section = find_section(dot == std::string::npos ? "" : value.path.substr(0, dot));
  const Key* key = section == nullptr ? nullptr : find_key(*section, value.path.substr(dot + 1));
  values.warnings.push_back(without_effect(value, key == nullptr ? "" : key->note));
}

std::string suggest_key(const Section& section, std::string_view name) {
  std::vector<std::string> known, homes, readers;
  for (const Section& other : sections()) {
    const bool same = std::string_view(other.path) == section.path &&
                      (std::string_view(other.variant) == section.variant || *section.path == '\0');
    for (const Key& key : other.keys) {
      if (same) known.push_back(key.name);
      if (same && key.alias != nullptr) known.push_back(key.alias);
      // "enabled" and the like live everywhere; only a key with one home is worth pointing to.
      const bool named = key.name == name || (key.alias != nullptr && key.alias == name);
      if (same || !named) continue;
      if (std::string_view(other.path) == section.path) readers.push_back(other.variant);
      homes.push_back(key_path(other, key.name));
    }
  }
  if (!readers.empty()) return "Only these types read it: " + join(readers) + ".";
  const std::string_view elsewhere = key_named_elsewhere(name);
  if (!elsewhere.empty()) return "zrt calls it '" + std::string(elsewhere) + "'.";
  const std::string near = nearest(name, known);
  if (!near.empty()) return "The nearest known key is '" + key_path(section, near) + "'.";
  std::sort(homes.begin(), homes.end());
  homes.erase(std::unique(homes.begin(), homes.end()), homes.end());
  if (homes.size() == 1) return "Did you mean '" + homes[0] + "'?";
  if (known.size() <= 16) return "Known keys there: " + join(known) + ".";
  return "No known key there is spelt like it.";
}

}  // namespace zrt::runtime::configuration
