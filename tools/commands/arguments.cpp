#include "tools/commands/arguments.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iostream>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/log.h"

namespace zrt::tools {

bool parse(const Args& args, const std::string& usage, po::options_description options,
           const std::vector<std::string>& positional, po::variables_map& values, bool repeat_last, bool may_lack) {
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
    if (!values.count(name) && !may_lack) throw core::UsageError(fmt::format("{} is missing; usage: {}", name, usage));
  }
  return true;
}

void add_device_option(po::options_description& options) {
  options.add_options()("device", po::value<std::string>(), "cpu or cuda: sets run.device");
}

namespace {

std::string option_text(const po::variable_value& value) {
  if (const auto* text = boost::any_cast<std::string>(&value.value())) return *text;
  if (const auto* number = boost::any_cast<int>(&value.value())) return std::to_string(*number);
  return std::to_string(value.as<int64_t>());
}

}  // namespace

runtime::Settings config_settings(const po::variables_map& values, const std::vector<KeyOption>& options) {
  runtime::Settings settings;
  const auto add = [&](const KeyOption& option) {
    const po::variable_value& value = values[option.option];
    if (value.empty()) return;
    const std::string text = option_text(value);
    settings.emplace_back(std::string(option.key) + "=" + (option.value ? option.value(text) : text),
                          std::string("--") + option.option + (value.defaulted() ? " (" + text + " by default)" : ""));
  };
  add({"device", "run.device"});
  for (const KeyOption& option : options) add(option);
  if (!values.count("set")) return settings;
  for (const std::string& set : values["set"].as<std::vector<std::string>>()) settings.push_back(set);
  return settings;
}

namespace {

constexpr const char* steps_option = "steps";
struct RunOption {
  KeyOption key;
  const char* text;
};
constexpr RunOption options_of_runs[] = {
    {{steps_option, "run.steps"}, "run.steps"},
    {{"epochs", "run.epochs"}, "run.epochs: passes over the data, in place of steps"},
    {{"tokens", "run.tokens"}, "run.tokens: tokens to train on, in place of steps"},
    {{"samples", "run.samples"}, "run.samples: samples to train on, in place of steps"},
    {{"out", "run.out"}, "run.out: folder of the run"},
};

}  // namespace

void add_run_options(po::options_description& options) {
  options.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                        "a.b.c=value: override a key; may be repeated");
  for (const RunOption& one : options_of_runs) {
    const bool number = one.key.option == std::string_view(steps_option);
    if (number) options.add_options()(one.key.option, po::value<int64_t>(), one.text);
    if (!number) options.add_options()(one.key.option, po::value<std::string>(), one.text);
  }
  add_device_option(options);
}

std::vector<KeyOption> run_options() {
  std::vector<KeyOption> keys;
  for (const RunOption& one : options_of_runs) keys.push_back(one.key);
  return keys;
}

Args given_run_options(const po::variables_map& values) {
  Args args;
  if (values.count("set")) {
    for (const std::string& set : values["set"].as<std::vector<std::string>>()) {
      args.insert(args.end(), {"--set", set});
    }
  }
  const auto add = [&](const std::string& option) {
    if (values.count(option)) args.push_back("--" + option + "=" + option_text(values[option]));
  };
  add("device");
  for (const RunOption& one : options_of_runs) {
    if (one.key.option != std::string_view("out")) add(one.key.option);
  }
  return args;
}

void log_remarks(const runtime::Config& config) {
  for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
  for (const std::string& note : config.notes) spdlog::info("{}", note);
  if (!config.run.length.empty()) std::cerr << config.run.length << '\n';
}

std::string default_folder(const std::string& name) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
}

std::vector<std::string> command_words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace zrt::tools
