// A conversation to learn from, out of a line of JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/data/chat/chat_template.h"

namespace zrt::runtime::data::chat {

struct ChatLine {
  nlohmann::ordered_json messages;         // a list of {"role": …, "content": …, …}
  nlohmann::ordered_json tools = nullptr;  // what `tools` of the line says
};

// {"messages": […]}, perhaps with "tools"; or {"prompt": …, "completion": …}, both of them texts, a user's and an
// assistant's, or lists of messages. Throws ConfigError that says what is wrong with the line: no JSON, no such field,
// a message without a role, a conversation in which no assistant says anything.
ChatLine read_chat_line(std::string_view line);

// Renders a line as a model reads it. Throws ConfigError, also where the template refuses it or none of it counts.
Conversation read_conversation(const ChatTemplate& chat_template, std::string_view line);

}  // namespace zrt::runtime::data::chat
