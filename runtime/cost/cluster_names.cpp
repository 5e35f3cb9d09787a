// Clusters by name: the files of share/clusters, beside the program where it was built or installed.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/cost/cluster.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;

// bin/zrt finds share/zrt/clusters beside bin; what lies in a build folder finds it in that folder.
fs::path clusters_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& base : {program.parent_path().parent_path(), program.parent_path()}) {
    const fs::path folder = base / "share" / "zrt" / "clusters";
    if (!error && fs::is_directory(folder, error)) return folder;
    error.clear();
  }
  return {};
}

}  // namespace

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(clusters_folder(), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Cluster find_cluster(const std::string& wanted) {
  const std::vector<std::string> names = cluster_names();
  std::error_code error;
  const size_t colon = fs::exists(wanted, error) ? std::string::npos : wanted.rfind(':');
  const std::string name_or_file = wanted.substr(0, colon);
  const std::string software = colon == std::string::npos ? "" : wanted.substr(colon + 1);
  if (std::find(names.begin(), names.end(), name_or_file) != names.end()) {
    return load_cluster(clusters_folder() / (name_or_file + ".json"), software);
  }
  if (fs::exists(name_or_file, error)) return load_cluster(name_or_file, software);
  const std::string meant = core::keys::nearest(name_or_file, names);
  throw core::ConfigError(fmt::format(
      "there is no cluster {} and no file of that name{}. Known clusters are {}; `zrt bench calibrate --out FILE` "
      "makes "
      "a file for this machine.",
      core::keys::in_quotes(name_or_file), meant.empty() ? "" : "; did you mean '" + meant + "'?",
      names.empty() ? "none (share/zrt/clusters is missing beside the program)" : core::keys::join(names)));
}

}  // namespace zrt::runtime
