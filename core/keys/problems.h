// Gathers what is wrong with a configuration, so that it is told at once.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace zrt::core::keys {

// One thing that is wrong: with the value of `path`, given in `line` of the file; 0: it has no line.
class Refusal : public ConfigError {
 public:
  Refusal(const std::string& text, std::string of, int in_line)
      : ConfigError(text), path(std::move(of)), line(in_line) {}

  std::string path;
  int line;
};

class Problems {
 public:
  static constexpr size_t most_shown = 60;

  void add(const ConfigError& error);
  bool empty() const { return all_.empty(); }
  // Throws one ConfigError: the text of the only problem, or a line for each in the order of the file, those without a
  // line last. Does nothing when there is none.
  void raise(const std::string& file) const;

 private:
  struct Problem {
    int line;
    std::string text;
  };
  std::vector<Problem> all_;
};

}  // namespace zrt::core::keys
