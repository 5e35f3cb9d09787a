#include "tools/commands/prompts.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/json_lines.h"
#include "runtime/train/checkpoint/strict_json.h"
#include "runtime/train/tasks/task_file.h"

namespace zrt::tools {
namespace {

std::string prompt_of(const std::string& line, const std::string& place) {
  const auto object = runtime::checkpoint::parse_strict_json(line, place);
  const auto found = object.is_object() ? object.find("prompt") : object.end();
  if (found == object.end() || !found->is_string()) {
    throw core::DataError(
        fmt::format("{}: must be an object with a text \"prompt\", such as {{\"prompt\": \"The \"}}. "
                    "A file that ends in .txt has a prompt in each line",
                    place));
  }
  return found->get<std::string>();
}

}  // namespace

std::vector<Prompt> read_prompts(const po::variables_map& values) {
  const bool given = !values["prompt"].defaulted();
  if (!values.count("prompts")) return {{values["prompt"].as<std::string>(), ""}};
  if (given)
    throw core::UsageError("--prompt and --prompts are both given: put the text into the file, or leave one out");
  const std::string file = values["prompts"].as<std::string>();
  const bool json = !runtime::data::json_ending(file).empty();
  std::vector<Prompt> prompts;
  runtime::for_each_line(file, [&](const std::string& line, const std::string& place) {
    prompts.push_back({json ? prompt_of(line, place) : line, place});
  });
  if (prompts.empty()) throw core::DataError(fmt::format("{} has no line to continue", file));
  return prompts;
}

}  // namespace zrt::tools
