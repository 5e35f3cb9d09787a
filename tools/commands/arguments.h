// Command lines through Boost.Program_options, with zrt's errors.
#pragma once
#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "tools/commands/command.h"

namespace zrt::tools {

namespace po = boost::program_options;

// Parses `args`. Positional arguments go to the options named in `positional`, the last of which may repeat when
// `repeat_last`. Adds --help: prints `usage` and the options to stdout and returns false. Throws UsageError.
bool parse(const Args& args, const std::string& usage, po::options_description options,
           const std::vector<std::string>& positional, po::variables_map& values, bool repeat_last = false);

// --device, and what it and --set say to the configuration.
void add_device_option(po::options_description& options);
std::vector<std::string> config_sets(const po::variables_map& values);

// Folder of a run that was given none: runs/<name>-<time>.
std::string default_folder(const std::string& name);

}  // namespace zrt::tools
