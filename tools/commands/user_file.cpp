#include "tools/commands/user_file.h"

#include <fmt/format.h>

#include <fstream>

#include "core/error.h"

namespace zrt::tools {
namespace {

namespace fs = std::filesystem;

bool has_mark(const fs::path& path, const char* mark) {
  std::string head(4096, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head.find(mark) != std::string::npos;
}

}  // namespace

void add_force_option(po::options_description& options) {
  options.add_options()("force", "replace a file that is there already and that this command did not write");
}

void require_replaceable(const UserFile& file, const po::variables_map& values) {
  std::error_code failed;
  const std::string name = file.path.string();
  if (name.empty()) throw core::UsageError(fmt::format("{} is empty; it names the file to write", file.option));
  if (fs::is_directory(file.path, failed)) {
    throw core::ConfigError(
        fmt::format("{}: {} names a folder. Name the file in it that is to be written.", name, file.option));
  }
  if (!fs::is_regular_file(file.path, failed)) return;
  if (!file.input.empty() && fs::equivalent(file.path, file.input, failed)) {
    throw core::ConfigError(fmt::format("{}: {} would replace this file, which is the input. Choose another {}.", name,
                                        file.option, file.option));
  }
  if (values.count("force") > 0 || fs::file_size(file.path, failed) == 0 || has_mark(file.path, file.mark)) return;
  throw core::ConfigError(
      fmt::format("{}: this file is there already, and {} did not write it. Choose another {}, or add --force to "
                  "replace it.",
                  name, file.option, file.option));
}

}  // namespace zrt::tools
