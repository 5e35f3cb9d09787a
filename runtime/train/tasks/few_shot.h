// Shots: solved items in front of an item's context.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/tasks/task_file.h"

namespace zrt::runtime {

struct FewShot {
  int64_t number = 0;
  std::optional<uint64_t> seed{};  // nothing: the first ones of the pool for every item
  std::string separator = "\n\n";  // behind each shot
};

// Puts, in front of each item's context, so many items of `pool`, each as its context, its right choice and the
// separator. They are of the same task (lines that name none are of one), and none is the item itself. With a seed
// each item has its own, drawn by the seed and the item's number alone. Throws ConfigError where a task has too few.
std::vector<TaskItem> with_shots(std::vector<TaskItem> items, const std::vector<TaskItem>& pool,
                                 const FewShot& options);

}  // namespace zrt::runtime
