#include "runtime/train/tasks/task_file.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/text_reader.h"
#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime {
namespace {

using checkpoint::Json;

constexpr const char* example = R"({"context": "The sky is", "choices": [" blue", " green"], "gold": 0})";

[[noreturn]] void refuse_line(const std::string& place, const std::string& problem) {
  throw core::DataError(fmt::format("{}: {}. A line looks like {}", place, problem, example));
}

const Json& member(const Json& line, const char* key, const std::string& place) {
  const auto found = line.find(key);
  if (found == line.end()) refuse_line(place, fmt::format("the key \"{}\" is missing", key));
  return *found;
}

std::vector<std::string> choices_of(const Json& line, const std::string& place) {
  const Json& list = member(line, "choices", place);
  if (!list.is_array() || list.empty()) refuse_line(place, "\"choices\" must be a list of one text or more");
  std::vector<std::string> choices;
  for (const Json& choice : list) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) {
      refuse_line(place, fmt::format("choice {} is {}; it must be a text that is not empty", choices.size(),
                                     choice.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
    choices.push_back(choice.get<std::string>());
  }
  return choices;
}

size_t gold_of(const Json& line, size_t choices, const std::string& place) {
  const Json& gold = member(line, "gold", place);
  if (!gold.is_number_integer() || gold < 0 || gold >= choices) {
    refuse_line(place,
                fmt::format("\"gold\" is {}; it must be the number of a choice, 0 to {}", gold.dump(), choices - 1));
  }
  return gold.get<size_t>();
}

TaskItem item_of(const std::string& text, const std::string& place) {
  const Json line = checkpoint::parse_strict_json(text, place);
  if (!line.is_object()) refuse_line(place, "a line must be a JSON object");
  TaskItem item;
  item.place = place;
  const Json& context = member(line, "context", place);
  if (!context.is_string()) refuse_line(place, "\"context\" must be a text");
  item.context = context.get<std::string>();
  item.choices = choices_of(line, place);
  item.gold = gold_of(line, item.choices.size(), place);
  if (const auto task = line.find("task"); task != line.end()) {
    if (!task->is_string()) refuse_line(place, fmt::format("\"task\" is {}; it must be a text", task->dump()));
    item.task = task->get<std::string>();
  }
  if (const auto id = line.find("id"); id != line.end()) {
    if (!id->is_string() && !id->is_number_integer()) {
      refuse_line(place, fmt::format("\"id\" is {}; it must be a text or an integer", id->dump()));
    }
    item.id = id->is_string() ? id->get<std::string>() : id->dump();
  }
  return item;
}

}  // namespace

void for_each_line(const std::filesystem::path& file,
                   const std::function<void(const std::string& line, const std::string& place)>& take) {
  data::TextReader reader(file.string());
  std::string line;
  int64_t number = 0;
  const auto end_line = [&] {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) take(line, fmt::format("{}:{}", file.string(), number));
    line.clear();
  };
  std::vector<char> piece(1 << 16);
  while (const size_t count = reader.read(piece.data(), piece.size())) {
    for (size_t i = 0; i < count; ++i) {
      if (piece[i] == '\n') {
        end_line();
      } else {
        line.push_back(piece[i]);
      }
    }
  }
  if (!line.empty()) end_line();
}

std::vector<TaskItem> read_tasks(const std::filesystem::path& file) {
  std::vector<TaskItem> items;
  for_each_line(file,
                [&](const std::string& line, const std::string& place) { items.push_back(item_of(line, place)); });
  if (items.empty()) {
    throw core::DataError(fmt::format("{} has no line; each is to be an item such as {}", file.string(), example));
  }
  return items;
}

}  // namespace zrt::runtime
