#include "runtime/train/tasks/few_shot.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace zrt::runtime {
namespace {

using Pool = std::vector<const TaskItem*>;

bool same_item(const TaskItem& a, const TaskItem& b) {
  return a.context == b.context && a.choices == b.choices && a.gold == b.gold;
}

// Moves `number` of them, drawn without putting back, to the front.
void draw(Pool& from, size_t number, uint64_t seed, uint32_t item) {
  for (size_t i = 0; i < number; ++i) {
    const uint32_t word = core::random_word({seed, item, 0}, i);
    std::swap(from[i], from[i + word % (from.size() - i)]);
  }
}

}  // namespace

std::vector<TaskItem> with_shots(std::vector<TaskItem> items, const std::vector<TaskItem>& pool,
                                 const FewShot& options) {
  if (options.number == 0) return items;
  std::map<std::string, Pool> by_task;
  for (const TaskItem& shot : pool) by_task[shot.task].push_back(&shot);
  const auto number = static_cast<size_t>(options.number);
  for (size_t i = 0; i < items.size(); ++i) {
    TaskItem& item = items[i];
    Pool others;
    for (const TaskItem* shot : by_task[item.task]) {
      if (!same_item(*shot, item)) others.push_back(shot);
    }
    if (others.size() < number) {
      throw core::ConfigError(
          fmt::format("{}: {} shots are asked for, and the file of shots has {} other lines {}. Give fewer, or more "
                      "lines with the same \"task\"",
                      item.place, number, others.size(),
                      item.task.empty() ? "without a \"task\"" : fmt::format("of task \"{}\"", item.task)));
    }
    if (options.seed) draw(others, number, *options.seed, static_cast<uint32_t>(i));
    std::string text;
    for (size_t s = 0; s < number; ++s) {
      text += others[s]->context + others[s]->choices[others[s]->gold] + options.separator;
    }
    item.context = text + item.context;
  }
  return items;
}

}  // namespace zrt::runtime
