// The configuration as given: the parsed file, with --set overrides applied and legacy spellings replaced.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/json_reader.h"
#include "runtime/config/values.h"

namespace zrt::runtime::configuration {

struct Tree {
  Document document;
  std::vector<std::string> set_paths;    // of the overrides: they and all below them come from the command line
  std::map<std::string, From> recorded;  // origins that a config.resolved.json recorded
  std::vector<std::string> warnings;

  From origin(std::string_view path) const;
  std::string place(std::string_view path) const;  // "ds.json:12" or "the command line"
  // The value at a path, null when there is none.
  const nlohmann::json* find(std::string_view path) const;
};

// Replaces aliases by the names of the key table, the boolean form of zero_optimization by its object, and deprecated
// keys by their successors. Throws ConfigError when both spellings are given.
void normalise(Tree& tree);

// "a.b.c=value": the value is JSON where it parses as JSON, else a string; a key that wants a string takes the text as
// it is. Sections on the way are created. Throws UsageError when the text is not of this form, ConfigError when a part
// of the path holds something else than a section.
void apply_set(Tree& tree, const std::string& text);

std::vector<std::string> split_path(std::string_view path);

}  // namespace zrt::runtime::configuration
