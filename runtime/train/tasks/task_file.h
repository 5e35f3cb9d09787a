// Files of multiple-choice tasks: JSON lines of a context and choices that may follow it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace zrt::runtime {

struct TaskItem {
  std::string task{};  // "": the line names none
  std::string id{};    // "": none
  std::string context{};
  std::vector<std::string> choices{};  // at least one; texts as they follow the context, blank in front included
  size_t gold = 0;                     // of the choices
  std::string place{};                 // "FILE:LINE", for messages
};

// Calls `take` with every line that is not blank, without its end, and its place; the file may end in .gz. Throws
// DataError when it cannot be read.
void for_each_line(const std::filesystem::path& file,
                   const std::function<void(const std::string& line, const std::string& place)>& take);

// Each line is an object with `context` (text), `choices` (a list of texts) and `gold` (the number of the right one,
// from 0), and may have `task` (text) and `id` (text or integer). Other keys are passed by, so that a data set's own
// may stay. Throws DataError with file and line.
std::vector<TaskItem> read_tasks(const std::filesystem::path& file);

}  // namespace zrt::runtime
