// Text that a model makes, on stdout.
#pragma once
#include <string>
#include <string_view>

namespace zrt::tools {

// On a terminal it has no control characters (core/printable.h), and each character appears when it is whole; elsewhere
// every byte is written as it is.
class TextOutput {
 public:
  TextOutput();
  void write(std::string_view text);
  void end();  // a character that has not come whole is written, too
  bool terminal() const { return terminal_; }

 private:
  const bool terminal_;
  std::string pending_;
};

}  // namespace zrt::tools
