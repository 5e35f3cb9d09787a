#include "runtime/data/input_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace fs = std::filesystem;
using core::DataError;

namespace {

bool is_text_name(std::string name) {
  if (has_suffix(name, ".gz")) name.resize(name.size() - 3);
  return has_suffix(name, ".txt") || has_suffix(name, ".md") || has_suffix(name, ".text");
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
  std::sort(paths.begin(), paths.end());
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
        skip(path, "not .txt, .md, .text or .gz of them");
      else
        add(path, false);
    }
  }

  InputFiles take() { return std::move(found_); }

 private:
  void skip(const std::string& path, const char* reason) { found_.skipped.push_back({path, reason}); }

  InputFiles found_;
  std::set<std::string> seen_;
};

}  // namespace

InputFiles find_input_files(const std::vector<std::string>& inputs) {
  if (inputs.empty()) throw DataError("no input was named; name text files, .gz files or folders of them.");
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
  if (found.files.empty())
    throw DataError(
        fmt::format("{}: no text was found; files must end in .txt, .md, .text or .gz of these ({} others "
                    "were skipped). A file of another name is read when it is named itself.",
                    fmt::join(inputs, ", "), found.skipped.size()));
  return found;
}

}  // namespace zrt::runtime::data
