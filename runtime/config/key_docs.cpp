#include "runtime/config/key_docs.h"

#include <algorithm>

#include "core/keys/text.h"
#include "models/spec.h"
#include "optimizer/spec.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime {
namespace {

using namespace configuration;

std::string handling_text(Handling handling) {
  constexpr const char* texts[] = {"implemented", "no effect", "refused"};
  return texts[static_cast<size_t>(handling)];
}

std::string effect_text(const Key& key) {
  constexpr const char* texts[] = {"", "results", "memory and time", "reports", "nothing"};
  return key.handling == Handling::implemented ? texts[static_cast<size_t>(key.effect)] : "nothing";
}

// Names the types that read this form of a section that has several; "" for others.
std::string types_of(const Section& section) {
  const std::string path = section.path, variant = section.variant;
  if (path == "scheduler.params") return "scheduler.type " + variant;
  if (path != "optimizer.params") return "";
  for (const optimizer::OptimizerSpec* spec : optimizer::optimizer_specs()) {
    if (spec->variant == variant) return "optimizer.type " + join(spec->types);
  }
  return "optimizer.type " + variant;
}

// Names the types of models that alone have a key; "" for others.
std::string models_of(const Section& section, const Key& key) {
  std::vector<std::string> types;
  for (const models::ModelSpec* spec : models::model_specs()) {
    for (const Section& own : spec->sections) {
      if (own.path == std::string_view(section.path) && find_key(own, key.name) != nullptr)
        types.emplace_back(spec->type);
    }
  }
  return types.empty() ? "" : "model.type " + join(types);
}

// A note as a sentence; the name of a key or file that begins it stays as it is.
std::string sentence(std::string note) {
  if (note.empty()) return note;
  const bool named = note.substr(0, note.find(' ')).find_first_of("._") != std::string::npos;
  if (!named && note[0] >= 'a' && note[0] <= 'z') note[0] = static_cast<char>(note[0] - 'a' + 'A');
  return note + ".";
}

std::string help_of(const Section& section, const Key& key) {
  const std::string help = key.help, note = sentence(key.note);
  if (!help.empty() || !note.empty()) return help + (help.empty() || note.empty() ? "" : " ") + note;
  // The gate's note holds for all that it switches on.
  const Key* gate = section.gate == nullptr ? nullptr : find_key(section, section.gate);
  return gate == nullptr || gate->handling == Handling::implemented ? "" : sentence(gate->note);
}

bool has_section(std::string_view path) {
  return std::any_of(sections().begin(), sections().end(),
                     [&](const Section& section) { return section.path == path; });
}

KeyDoc doc_of(const Section& section, const Key& key) {
  KeyDoc doc;
  doc.path = key_path(section, key.name);
  doc.name = key.name;
  doc.of = types_of(section);
  if (doc.of.empty()) doc.of = models_of(section, key);
  doc.alias = key.alias == nullptr ? "" : key.alias;
  doc.legal = legal_text(key);
  doc.fallback = key.fallback == nullptr ? "" : key.fallback;
  doc.handling = handling_text(key.handling);
  doc.changes = effect_text(key);
  doc.help = help_of(section, key);
  doc.section = has_section(doc.path);
  return doc;
}

// Returns what the key of that path says in the section above it.
std::string section_help(const std::string& path) {
  if (path.empty()) return "Keys outside of every section.";
  const size_t dot = path.rfind('.');
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  for (const Section& above : sections()) {
    if (above.path != (dot == std::string::npos ? "" : path.substr(0, dot))) continue;
    if (const Key* key = find_key(above, name)) return help_of(above, *key);
  }
  return "";
}

}  // namespace

const std::vector<SectionDoc>& key_docs() {
  static const std::vector<SectionDoc> docs = [] {
    std::vector<SectionDoc> all;
    for (const Section& section : sections()) {
      SectionDoc doc{section.path, types_of(section), section_help(section.path), section.parser == Parser::own, {}};
      for (const Key& key : section.keys) doc.keys.push_back(doc_of(section, key));
      all.push_back(std::move(doc));
    }
    return all;
  }();
  return docs;
}

std::vector<KeyDoc> find_key_docs(std::string_view path) {
  std::vector<KeyDoc> found;
  for (const SectionDoc& section : key_docs()) {
    const std::string above = section.path.empty() ? "" : section.path + ".";
    for (const KeyDoc& key : section.keys) {
      if (key.path == path || (!key.alias.empty() && above + key.alias == path)) found.push_back(key);
    }
  }
  return found;
}

std::string suggest_path(std::string_view path) {
  std::vector<std::string> paths, homes;
  for (const SectionDoc& section : key_docs()) {
    for (const KeyDoc& key : section.keys) {
      paths.push_back(key.path);
      if (key.name == path && std::find(homes.begin(), homes.end(), key.path) == homes.end()) homes.push_back(key.path);
    }
  }
  if (!homes.empty()) return "Did you mean " + join(homes, " or ") + "?";
  const std::string near = nearest(path, paths);
  return near.empty() ? "zrt config lists the sections." : "The nearest is " + near + ".";
}

}  // namespace zrt::runtime
