// Command lines through Boost.Program_options, with zrt's errors.
#pragma once
#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "tools/commands/command.h"

namespace zrt::tools {

namespace po = boost::program_options;

// Parses `args`. Positional arguments go to the options named in `positional`, the last of which may repeat when
// `repeat_last`; none may be missing unless `may_lack`. Adds --help: prints `usage` and the options to stdout and
// returns false. Throws UsageError.
bool parse(const Args& args, const std::string& usage, po::options_description options,
           const std::vector<std::string>& positional, po::variables_map& values, bool repeat_last = false,
           bool may_lack = false);

void add_device_option(po::options_description& options);

// An option that stands for a key of the configuration, as its text, or as what `value` makes of that.
struct KeyOption {
  const char *option, *key;
  std::string (*value)(const std::string& text) = nullptr;
};

// Returns what the command line says to the configuration: --device and the `options` that have a value, defaults
// included, then every --set. The configuration refuses an option and a --set that contradict each other.
runtime::Settings config_settings(const po::variables_map& values, const std::vector<KeyOption>& options = {});

// The options of `zrt train` that stand for a key of the section run, which `zrt launch` takes, too, and --set.
void add_run_options(po::options_description& options);
std::vector<KeyOption> run_options();
// Returns those that were given, --set and --device included, as a command line has them; without --out.
Args given_run_options(const po::variables_map& values);

// --dtype, as of the benchmarks: bf16 or fp32.
inline const KeyOption dtype_option{
    "dtype", "bf16.enabled", [](const std::string& text) { return std::string(text == "bf16" ? "true" : "false"); }};

// Logs the warnings and notes of a configuration, and how many steps its run takes where another key says its length.
void log_remarks(const runtime::Config& config);

// Names the folder of a run that was given none: runs/<name>-<time>.
std::string default_folder(const std::string& name);

// Returns a command line's words, as blanks part them.
std::vector<std::string> command_words(const std::string& text);

}  // namespace zrt::tools
