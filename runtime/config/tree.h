// The configuration as given: the parsed file, with --set overrides applied and legacy spellings replaced.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/json_reader.h"
#include "runtime/config/key_table.h"
#include "runtime/config/setting.h"

namespace zrt::runtime::configuration {

// A setting as it was applied: `path` and all below it come from the command line.
struct Applied {
  std::string path, option;
  nlohmann::json value;
};

struct Tree {
  Document document;
  std::vector<Applied> applied;
  std::map<std::string, From> recorded;        // origins that a config.resolved.json recorded
  std::map<std::string, std::string> written;  // by path: the other spelling, or the old key, that was given
  std::vector<std::string> warnings;
  Problems problems;

  From origin(std::string_view path) const;
  // "ds.json:12", "ds.json:12, as zero_optimization.prefetch_bucket_size", "--set run.steps" or "--device".
  std::string place(std::string_view path) const;
  int line(std::string_view path) const;  // of the file; 0: none
  // The value at a path, null when there is none.
  const nlohmann::json* find(std::string_view path) const;
};

// Replaces aliases by the names of the key table, the boolean form of zero_optimization by its object, and deprecated
// keys by their successors. Both spellings together are a problem. Throws ConfigError when the root is no object.
void normalise(Tree& tree);

// "a.b.c=value": the value is JSON where it parses as JSON, else a string; a key that wants a string takes the text as
// it is. Sections on the way are created. Throws UsageError when the text is not of this form; that a part of the path
// holds something else than a section is a problem.
void apply_set(Tree& tree, const Override& setting);

// Adds a problem for every key that two options set to different values.
void find_contradictions(Tree& tree);

std::vector<std::string> split_path(std::string_view path);
// Says whether `path` is `prefix` or lies in it.
bool covers(std::string_view prefix, std::string_view path);

}  // namespace zrt::runtime::configuration
