#include "runtime/data/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace zrt::runtime::data::chat {
namespace {

using nlohmann::ordered_json;

constexpr char said_by_others = 1;
constexpr char first_answer = 16;  // marks of assistants' messages, in turns
constexpr int answer_marks = 100;

Value day(const Arguments& arguments) {
  if (arguments.list.size() != 1 || arguments.list[0].text() == nullptr) {
    throw core::ConfigError("'strftime_now' takes a format");
  }
  std::tm time{};
  time.tm_year = 124, time.tm_mon = 6, time.tm_mday = 26, time.tm_wday = 5, time.tm_yday = 207;
  char text[256];
  const size_t size = std::strftime(text, sizeof text, arguments.list[0].text()->bytes.c_str(), &time);
  return Text(std::string_view(text, size));
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Marks all that a message says; its role is the template's word.
Value marked(const ordered_json& message, char mark) {
  if (!message.is_object()) return from_json(message, mark);
  Map fields;
  for (const auto& [name, value] : message.items())
    fields.emplace_back(name, from_json(value, name == "role" ? '\0' : mark));
  return fields;
}

// An answer whose first word stands at `at` begins behind what the template itself put in front of it last, from `from`
// on; with that word where there is no such thing.
size_t begin_of_answer(const Text& text, const std::string& before, size_t from, size_t at) {
  for (size_t end = at; !before.empty() && end >= from + before.size(); --end) {
    const size_t begin = end - before.size();
    if (text.bytes.compare(begin, before.size(), before) != 0) continue;
    const auto marks = text.marks.begin() + static_cast<std::ptrdiff_t>(begin);
    if (std::all_of(marks, marks + static_cast<std::ptrdiff_t>(before.size()), [](char mark) { return mark == 0; })) {
      return end;
    }
  }
  return at;
}

// A message as transformers hands it to templates: without keys that are null, and with a thought under all of its
// names.
ordered_json as_handed_on(const ordered_json& message) {
  if (!message.is_object()) return message;
  ordered_json kept = ordered_json::object();
  for (const auto& [name, value] : message.items()) {
    if (!value.is_null()) kept[name] = value;
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto thought = kept.find(name);
    if (thought == kept.end()) continue;
    const ordered_json value = *thought;
    kept["reasoning_content"] = value;
    if (!kept.contains("thinking")) kept["thinking"] = value;
    break;
  }
  return kept;
}

// Stands for an answer without a word, so that it is known where that stands.
const std::string no_word = "\xEE\x80\x80";

ordered_json turn(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const std::map<std::string, std::string>& tokens)
    : template_(source) {
  for (const auto& [name, token] : tokens) tokens_.emplace_back(name, Text(token));
  if (template_.has_generation()) return;
  // A conversation of two turns shows what stands around an answer.
  const ordered_json question = ordered_json::array({turn("user", "question")});
  ordered_json answered = question;
  const std::string answer = "answer";
  answered.push_back(turn("assistant", answer.c_str()));
  const std::string without = render_marked(question, nullptr, false).bytes, with = prompt(question, nullptr);
  if (with.starts_with(without)) before_answer_ = with.substr(without.size());
  const std::string all = render_marked(answered, nullptr, false).bytes;
  const size_t at = all.rfind(answer);
  if (at == std::string::npos) throw core::ConfigError("the template leaves out what an assistant says");
  const size_t begin = at + answer.size();
  behind_answer_ = all.substr(begin, all.find_first_of(" \n\r\t", begin) - begin);
}

ChatTemplate ChatTemplate::of_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer_config.json", own = folder / "chat_template.jinja";
  ordered_json config = ordered_json::parse(text_of_file(file), nullptr, false);
  if (!config.is_object()) config = ordered_json::object();
  std::map<std::string, std::string> tokens;
  for (const auto& [name, value] : config.items()) {
    if (!name.ends_with("_token")) continue;
    const ordered_json& content = value.is_object() && value.contains("content") ? value["content"] : value;
    if (content.is_string()) tokens[name] = content.get<std::string>();
  }
  std::string source;
  std::filesystem::path from = file;
  if (std::filesystem::is_regular_file(own)) {
    from = own, source = text_of_file(own);
  } else if (const auto found = config.find("chat_template"); found != config.end()) {
    if (found->is_string()) source = found->get<std::string>();
    for (size_t i = 0; found->is_array() && i < found->size(); ++i) {
      const ordered_json& each = (*found)[i];
      if (each.value("name", "") == "default") source = each.value("template", "");
    }
  }
  if (source.empty()) {
    throw core::ConfigError(
        fmt::format("{} has no chat template: neither chat_template.jinja nor 'chat_template' in "
                    "tokenizer_config.json. Models that were not trained on conversations have "
                    "none; take the folder of one that was, or put a template there.",
                    folder.string()));
  }
  try {
    return ChatTemplate(source, tokens);
  } catch (const core::ConfigError& error) {
    throw core::ConfigError(fmt::format("{}: the chat template cannot be used: {}", from.string(), error.what()));
  }
}

Text ChatTemplate::render_marked(const ordered_json& messages, const ordered_json& tools, bool prompts) const {
  Map variables = tokens_;
  List said;
  int answers = 0;
  for (const ordered_json& given : messages) {
    const ordered_json message = as_handed_on(given);
    const bool answer = message.is_object() && message.value("role", "") == "assistant";
    said.push_back(marked(message, answer ? static_cast<char>(first_answer + answers % answer_marks) : said_by_others));
    answers += answer ? 1 : 0;
  }
  variables.emplace_back("messages", said);
  variables.emplace_back("tools", from_json(tools));
  variables.emplace_back("documents", None{});
  variables.emplace_back("add_generation_prompt", prompts);
  variables.emplace_back("strftime_now", Function(day));
  return template_.render(variables);
}

std::string ChatTemplate::prompt(const ordered_json& messages, const ordered_json& tools) const {
  return render_marked(messages, tools, true).bytes;
}

Conversation ChatTemplate::render(const ordered_json& messages, const ordered_json& tools) const {
  const Text text = render_marked(messages, tools, false);
  Conversation conversation{text.bytes, std::string(text.bytes.size(), 0)};
  if (template_.has_generation()) {
    for (size_t i = 0; i < text.marks.size(); ++i) conversation.counts[i] = text.marks[i] == generation_mark ? 1 : 0;
  } else if (!count_with_empty_answers(messages, tools, conversation)) {
    count_turns(text, conversation.counts);
  }
  return conversation;
}

// False where no answer is empty, or the template makes another text of one that is not.
bool ChatTemplate::count_with_empty_answers(const ordered_json& messages, const ordered_json& tools,
                                            Conversation& conversation) const {
  ordered_json filled = messages;
  bool any = false;
  for (ordered_json& message : filled) {
    if (!message.is_object() || message.value("role", "") != "assistant" ||
        message.value("content", ordered_json()) != "")
      continue;
    message["content"] = no_word, any = true;
  }
  if (!any || conversation.text.find(no_word) != std::string::npos) return false;
  const Text text = render_marked(filled, tools, false);
  std::string counts(text.bytes.size(), 0);
  count_turns(text, counts);
  Conversation found;
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    if (text.bytes.compare(at, no_word.size(), no_word) == 0) {
      at += no_word.size() - 1;
      continue;
    }
    found.text += text.bytes[at], found.counts += counts[at];
  }
  if (found.text != conversation.text) return false;
  conversation.counts = found.counts;
  return true;
}

void ChatTemplate::count_turns(const Text& text, std::string& counts) const {
  const size_t size = text.bytes.size();
  size_t behind = 0;  // the turns before
  for (size_t at = 0; at < size;) {
    if (text.marks[at] < first_answer) {
      if (text.marks[at] == said_by_others) behind = at + 1;
      ++at;
      continue;
    }
    // From the first to the last byte that this message said.
    const char mark = text.marks[at];
    size_t last = at;
    for (size_t i = at; i < size && (text.marks[i] == mark || text.marks[i] == 0); ++i) {
      if (text.marks[i] == mark) last = i;
    }
    const size_t begin = begin_of_answer(text, before_answer_, behind, at);
    size_t end = last + 1, others = end;
    while (others < size && text.marks[others] == 0) ++others;
    if (!behind_answer_.empty()) {
      const size_t found = text.bytes.find(behind_answer_, end);
      if (found != std::string::npos && found + behind_answer_.size() <= others) end = found + behind_answer_.size();
    }
    std::fill(counts.begin() + static_cast<std::ptrdiff_t>(begin), counts.begin() + static_cast<std::ptrdiff_t>(end),
              1);
    at = behind = end;
  }
}

}  // namespace zrt::runtime::data::chat
