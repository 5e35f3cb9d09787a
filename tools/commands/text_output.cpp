#include "tools/commands/text_output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>

#include "core/printable.h"

namespace zrt::tools {
namespace {

// Bytes at the end of `text` that begin a UTF-8 character of more.
size_t unfinished(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<uint8_t>(text[text.size() - count]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return count < (byte >= 0xF0 ? 4u : byte >= 0xE0 ? 3u : 2u) ? count : 0;
  }
  return 0;
}

}  // namespace

TextOutput::TextOutput() : terminal_(isatty(STDOUT_FILENO) != 0) {}

void TextOutput::write(std::string_view text) {
  if (!terminal_) {
    std::cout << text << std::flush;
    return;
  }
  pending_ += text;
  const size_t whole = pending_.size() - unfinished(pending_);
  std::cout << core::printable_lines(std::string_view(pending_).substr(0, whole)) << std::flush;
  pending_.erase(0, whole);
}

void TextOutput::end() {
  std::cout << core::printable_lines(pending_);
  pending_.clear();
}

}  // namespace zrt::tools
