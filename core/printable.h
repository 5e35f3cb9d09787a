// Text from outside (names of files, fields of files, what a model writes) as a terminal may see it.
#pragma once
#include <string>
#include <string_view>

namespace zrt::core {

// Control characters become \n, \t, \r or the \xNN of their bytes, as does each byte that is not UTF-8: no text can
// move the cursor, change colours or end a line. A backslash stays as it is.
std::string printable(std::string_view text);

// The same for a text of several lines: newlines and tabs stay.
std::string printable_lines(std::string_view text);

// A word as a POSIX shell reads it: in single quotes, unless nothing in it means something to a shell.
std::string in_shell(std::string_view word);

}  // namespace zrt::core
