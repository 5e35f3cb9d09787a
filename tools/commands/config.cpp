// Says what the configuration's keys are, from the table that reads them.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/config/key_docs.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {
namespace {

using nlohmann::ordered_json;
using runtime::KeyDoc;
using runtime::SectionDoc;

void print_key(const KeyDoc& key) {
  const auto line = [](const char* what, const std::string& text) {
    if (!text.empty()) std::cout << fmt::format("  {:<9} {}\n", what, text);
  };
  std::cout << key.path << "\n";
  line("of", key.of);
  line("also", key.alias);
  line("values", key.legal);
  line("default", key.fallback.empty() ? "none" : key.fallback);
  line("handling", key.handling);
  line("changes", key.changes);
  line("help", key.help);
}

ordered_json as_json(const KeyDoc& key) {
  ordered_json json{{"key", key.path},          {"of", key.of},           {"alias", key.alias}, {"values", key.legal},
                    {"handling", key.handling}, {"changes", key.changes}, {"help", key.help}};
  json["default"] = key.fallback.empty() ? ordered_json() : ordered_json::parse(key.fallback);
  return json;
}

// One line each, with what stands before the help in a column.
void print_lines(const std::vector<std::pair<std::string, std::string>>& lines) {
  size_t width = 0;
  for (const auto& [left, right] : lines) width = std::max(width, left.size());
  for (const auto& [left, right] : lines) std::cout << fmt::format("{:<{}}  {}\n", left, width, right);
}

void list_sections(bool json) {
  std::vector<std::pair<std::string, std::string>> lines;
  ordered_json all = ordered_json::array();
  for (const SectionDoc& section : runtime::key_docs()) {
    const bool known = std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.first == section.path; });
    if (section.path.empty() || known) continue;
    lines.emplace_back(section.path, section.help);
    all.push_back({{"section", section.path}, {"help", section.help}});
  }
  for (const SectionDoc& section : runtime::key_docs()) {
    if (!section.path.empty()) continue;
    for (const KeyDoc& key : section.keys) {
      if (key.section) continue;
      lines.emplace_back(key.path, key.help);
      all.push_back(as_json(key));
    }
  }
  if (json) {
    std::cout << all.dump(2) << "\n";
  } else {
    print_lines(lines);
  }
}

// The keys of a section, or one key; of every type that has it.
void show(const std::string& name, bool json) {
  std::vector<KeyDoc> keys;
  for (const SectionDoc& section : runtime::key_docs()) {
    if (section.path == name) keys.insert(keys.end(), section.keys.begin(), section.keys.end());
  }
  const bool whole = !keys.empty();
  if (!whole) keys = runtime::find_key_docs(name);
  if (keys.empty()) {
    throw core::UsageError(
        fmt::format("'{}' is neither a key nor a section of the configuration. {}", name, runtime::suggest_path(name)));
  }
  if (json) {
    ordered_json all = ordered_json::array();
    for (const KeyDoc& key : keys) all.push_back(as_json(key));
    std::cout << all.dump(2) << "\n";
  } else if (whole) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const KeyDoc& key : keys) {
      lines.emplace_back(key.path, (key.of.empty() ? "" : "[" + key.of + "] ") +
                                       (key.handling == "implemented" ? "" : "[" + key.handling + "] ") + key.help);
    }
    print_lines(lines);
  } else {
    for (const KeyDoc& key : keys) print_key(key);
  }
}

}  // namespace

int config_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("json", "print it for scripts");
  options.add_options()("markdown", "print the page of all keys, docs/config.md");
  po::variables_map values;
  constexpr const char* usage = "zrt config [KEY | SECTION] [--json | --markdown]";
  // The one positional argument may be left out, which parse() does not know.
  Args rest = args;
  const auto name =
      std::find_if(rest.begin(), rest.end(), [](const std::string& arg) { return !arg.starts_with('-'); });
  const std::string wanted = name == rest.end() ? "" : *name;
  if (name != rest.end()) rest.erase(name);
  if (!parse(rest, usage, options, {}, values)) return 0;
  if (values.count("markdown")) {
    std::cout << runtime::config_page();
  } else if (!wanted.empty()) {
    show(wanted, values.count("json") != 0);
  } else {
    list_sections(values.count("json") != 0);
  }
  return 0;
}

}  // namespace zrt::tools
