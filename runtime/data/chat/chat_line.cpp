#include "runtime/data/chat/chat_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::runtime::data::chat {
namespace {

using nlohmann::ordered_json;

constexpr int deepest_line = 64;

std::string names_of(const ordered_json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
  return names.empty() ? "none" : names;
}

ordered_json side(const ordered_json& object, const char* name, const char* role) {
  const ordered_json& value = object[name];
  if (value.is_array()) return value;
  if (value.is_string()) return ordered_json::array({{{"role", role}, {"content", value}}});
  throw core::ConfigError(fmt::format("'{}' is neither a text nor a list of messages", name));
}

ordered_json messages_of(const ordered_json& object) {
  if (object.contains("messages")) return object["messages"];
  if (object.contains("prompt") && object.contains("completion")) {
    ordered_json messages = side(object, "prompt", "user");
    for (const ordered_json& message : side(object, "completion", "assistant")) messages.push_back(message);
    return messages;
  }
  throw core::ConfigError(
      fmt::format("the line has neither 'messages' nor 'prompt' and 'completion'; it has {}", names_of(object)));
}

void check(const ordered_json& messages) {
  if (!messages.is_array() || messages.empty()) throw core::ConfigError("'messages' is no list with a message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      throw core::ConfigError(fmt::format("message {} has no 'role' that is a text", i + 1));
    }
  }
  const bool answered = std::any_of(messages.begin(), messages.end(),
                                    [](const ordered_json& message) { return message["role"] == "assistant"; });
  if (!answered) throw core::ConfigError("no message is an assistant's: there is nothing to learn from the line");
}

}  // namespace

ChatLine read_chat_line(std::string_view line) {
  bool deep = false;
  const auto watch = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    deep |= depth > deepest_line;
    return true;
  };
  const ordered_json object = ordered_json::parse(line, watch, false);
  if (deep)
    throw core::ConfigError(fmt::format("lists and objects stand more than {} deep in each other", deepest_line));
  if (object.is_discarded()) throw core::ConfigError("the line is no JSON, or not UTF-8");
  if (!object.is_object()) throw core::ConfigError("the line is no object");
  ChatLine chat{messages_of(object)};
  check(chat.messages);
  if (object.contains("tools")) chat.tools = object["tools"];
  if (!chat.tools.is_null() && !chat.tools.is_array()) throw core::ConfigError("'tools' is neither a list nor null");
  return chat;
}

Conversation read_conversation(const ChatTemplate& chat_template, std::string_view line) {
  const ChatLine read = read_chat_line(line);
  Conversation conversation = chat_template.render(read.messages, read.tools);
  if (conversation.counts.find('\1') == std::string::npos)
    throw core::ConfigError("nothing that the template makes of it counts: there is nothing to learn from the line");
  return conversation;
}

}  // namespace zrt::runtime::data::chat
