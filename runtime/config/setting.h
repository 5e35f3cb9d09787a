// Keys set on the command line.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace zrt::runtime {

// "a.b.c=value", and the option it came by: --set itself, or one that stands for a key, such as --device.
struct Override {
  Override(const char* set) : text(set) {}
  Override(std::string set, std::string by = "--set") : text(std::move(set)), option(std::move(by)) {}

  std::string text, option = "--set";
};

// Settings stand in order: of several --set for one key the last one counts. A key that two different options set to
// different values is refused, with both named. A list of texts is a list of --set.
struct Settings : std::vector<Override> {
  using std::vector<Override>::vector;
  Settings(const std::vector<std::string>& texts) : std::vector<Override>(texts.begin(), texts.end()) {}
};

}  // namespace zrt::runtime
