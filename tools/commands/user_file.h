// Files that commands write where the user says: pages, figures, what benchmarks measure.
#pragma once
#include <filesystem>
#include <string>

#include "tools/commands/arguments.h"

namespace zrt::tools {

// Adds --force, which require_replaceable() asks for.
void add_force_option(po::options_description& options);

// Describes a file that a command is to write.
struct UserFile {
  std::filesystem::path path;
  const char* option;  // "--draw"
  const char* mark;    // a text in the first 4 KiB of each file that the command writes
  std::string input;   // a file that the command reads; "" for none
};

// Throws ConfigError when the path is a folder, or a file is there that would be replaced: unless it is empty, was
// written by the same command, as its mark says, or is to be replaced by --force. A file that the command reads is not
// replaced at all. Pipes and devices are none of its business. Asked before the work, which may take minutes.
void require_replaceable(const UserFile& file, const po::variables_map& values);

}  // namespace zrt::tools
