#include "runtime/data/input_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "runtime/data/binary_kinds.h"
#include "runtime/data/json_lines.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace fs = std::filesystem;
using core::DataError;

namespace {

constexpr const char* text_endings = ".txt, .md, .text, .jsonl, .ndjson, or .gz or .zst of them";

bool is_text_name(const std::string& path) {
  const std::string name = uncompressed_name(path), json = json_ending(name);
  if (!json.empty()) return json.size() > std::string_view(".json").size();
  return has_suffix(name, ".txt") || has_suffix(name, ".md") || has_suffix(name, ".text");
}

// Says why a file of another name is left out. Many a .json is no data: it is read when it is named itself.
std::string other_name(const std::string& path) {
  if (!json_ending(path).empty()) return "its name may be that of settings; it is read when it is named itself";
  if (const auto kind = kind_of_file(path); kind && kind->advice.find(':') != std::string::npos)
    return fmt::format("it is {}. {}", kind->name, kind->advice);
  return fmt::format("not {}", text_endings);
}

std::vector<std::string> entries_below(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed), end;
  while (!failed && entry != end) {
    std::error_code ignored;  // what cannot be looked at is not a folder
    if (!entry->is_directory(ignored) || entry->is_symlink(ignored)) paths.push_back(entry->path().string());
    entry.increment(failed);
  }
  if (failed) throw DataError(fmt::format("{}: cannot read this folder: {}.", folder, failed.message()));
  std::sort(paths.begin(), paths.end());  // by bytes, on every machine alike
  return paths;
}

class Collector {
 public:
  void add(const std::string& path, bool named) {
    std::error_code ignored;
    if (!seen_.insert(fs::weakly_canonical(path, ignored).string()).second)
      skip(path, "named twice");
    else
      found_.files.push_back({path, named});
  }

  void add_folder(const std::string& folder) {
    for (const std::string& path : entries_below(folder)) {
      std::error_code failed;
      const fs::file_status status = fs::status(path, failed);
      if (fs::is_directory(status))
        skip(path, "a link to a folder");
      else if (!fs::is_regular_file(status))
        skip(path, "not a regular file");
      else if (!is_text_name(path))
        skip(path, other_name(path));
      else
        add(path, false);
    }
  }

  InputFiles take() { return std::move(found_); }

 private:
  void skip(const std::string& path, const std::string& reason) { found_.skipped.push_back({path, reason}); }

  InputFiles found_;
  std::set<std::string> seen_;
};

}  // namespace

InputFiles find_input_files(const std::vector<std::string>& inputs) {
  if (inputs.empty()) throw DataError("no input was named; name files of text or of JSON lines, or folders of them.");
  Collector collector;
  for (const std::string& input : inputs) {
    std::error_code failed;
    const fs::file_status status = fs::status(input, failed);
    if (!fs::exists(status))
      throw DataError(fmt::format("{}: cannot open it: {}.", input, failed ? failed.message() : "no such file"));
    if (fs::is_directory(status))
      collector.add_folder(input);
    else
      collector.add(input, true);
  }
  InputFiles found = collector.take();
  if (found.files.empty()) {
    const std::string one =
        found.skipped.empty() ? "" : fmt::format("; {}: {}", found.skipped.front().path, found.skipped.front().reason);
    throw DataError(fmt::format(
        "{}: no text was found; files of a folder must end in {} ({} others were skipped{}). A file of another name is "
        "read when it is named itself.",
        fmt::join(inputs, ", "), text_endings, found.skipped.size(), one));
  }
  return found;
}

}  // namespace zrt::runtime::data
