#include "tools/commands/arguments.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iostream>

#include "core/error.h"

namespace zrt::tools {

bool parse(const Args& args, const std::string& usage, po::options_description options,
           const std::vector<std::string>& positional, po::variables_map& values, bool repeat_last) {
  options.add_options()("help,h", "print this text");
  po::options_description all;
  all.add(options);
  po::options_description hidden;
  po::positional_options_description places;
  for (size_t i = 0; i < positional.size(); ++i) {
    const bool many = repeat_last && i + 1 == positional.size();
    if (many) {
      hidden.add_options()(positional[i].c_str(), po::value<std::vector<std::string>>());
    } else {
      hidden.add_options()(positional[i].c_str(), po::value<std::string>());
    }
    places.add(positional[i].c_str(), many ? -1 : 1);
  }
  all.add(hidden);
  try {
    po::store(po::command_line_parser(args).options(all).positional(places).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw core::UsageError(fmt::format("{}; usage: {} (see --help)", error.what(), usage));
  }
  if (values.count("help")) {
    std::cout << "usage: " << usage << "\n\n" << options;
    return false;
  }
  for (const std::string& name : positional) {
    if (!values.count(name)) throw core::UsageError(fmt::format("{} is missing; usage: {}", name, usage));
  }
  return true;
}

void add_device_option(po::options_description& options) {
  options.add_options()("device", po::value<std::string>(), "cpu or cuda: sets run.device");
}

std::vector<std::string> config_sets(const po::variables_map& values) {
  std::vector<std::string> sets;
  if (values.count("set")) sets = values["set"].as<std::vector<std::string>>();
  if (values.count("device")) sets.push_back("run.device=" + values["device"].as<std::string>());
  return sets;
}

std::string default_folder(const std::string& name) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
}

}  // namespace zrt::tools
