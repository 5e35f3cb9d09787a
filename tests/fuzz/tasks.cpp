// A file of multiple-choice tasks, from anywhere.
#include "core/error.h"
#include "runtime/train/tasks/choice_tokens.h"
#include "runtime/train/tasks/task_file.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  const std::filesystem::path path = folder() / "tasks.jsonl";
  write(path, input);
  bool accepted = false;
  try {
    const runtime::data::TextCoder bytes(std::make_shared<runtime::data::ByteTokenizer>());
    for (const runtime::TaskItem& item : runtime::read_tasks(path)) {
      require(!item.choices.empty() && item.gold < item.choices.size(), "the right choice is one of the choices");
      require(item.place.starts_with(path.string() + ":"), "an item knows its line");
      for (size_t c = 0; c < item.choices.size(); ++c) {
        const runtime::ChoiceTokens tokens = runtime::choice_tokens(bytes, item, c, 16);
        require(
            tokens.counted > 0 && tokens.counted < static_cast<int64_t>(tokens.ids.size()) && tokens.ids.size() <= 17,
            "a choice stands behind an id, in a sequence");
      }
    }
    accepted = true;
  } catch (const core::DataError&) {
    accepted = false;
  }
  std::filesystem::remove(path);
  return accepted;
}

std::map<std::string, std::string> seeds() {
  return {
      {"plain", "{\"context\": \"The sky is\", \"choices\": [\" blue\", \" green\"], \"gold\": 0}\n"},
      {"all",
       "\n{\"context\":\"\",\"choices\":[\"a\"],\"gold\":0,\"task\":\"t\",\"id\":7}\r\n"
       "{\"context\": \"\\u00e9\\ud83d\\ude42 \", \"choices\": [\"b\", \"c\\n\"], \"gold\": 1, \"id\": \"x\", "
       "\"more\": {}}"},
  };
}

}  // namespace

const Target tasks{"tasks",
                   accepts,
                   seeds,
                   {"\"context\"", "\"choices\"", "\"gold\"", "\"task\"", "\"id\"", "\\ud83d", "[]", "-1", "1e300",
                    "18446744073709551616", "\n", "null"}};

}  // namespace zrt::fuzz
