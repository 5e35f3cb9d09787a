// The chat template of a model: conversations become the text that the model reads, and of that text it is known what
// an assistant says, which training counts. Text is what transformers' apply_chat_template makes of the same messages.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/data/chat/template.h"

namespace zrt::runtime::data::chat {

struct Conversation {
  std::string text;
  // A byte for each of `text`: 1 where an assistant says it, the token that ends its turn included, else 0.
  std::string counts;
};

class ChatTemplate {
 public:
  // tokens: bos_token, eos_token and others that the template may name. Templates ask for the day through strftime_now:
  // it is 26 July 2024 on all days, so that a dataset is the same whenever it is made. Throws ConfigError.
  ChatTemplate(std::string_view source, const std::map<std::string, std::string>& tokens);
  // Reads the template of a folder of Hugging Face: chat_template.jinja, else `chat_template` of tokenizer_config.json,
  // which also has the tokens. Throws ConfigError naming the file where there is none, or it uses what is not known.
  static ChatTemplate of_folder(const std::filesystem::path& folder);

  // messages: a list of {"role": …, "content": …} as transformers takes them; tools: null or a list. What counts is
  // marked by the template's {% generation %} blocks where it has some. Else it is all of an assistant's turn behind
  // what the template puts in front of an answer (add_generation_prompt), to the text that ends a turn. Throws
  // ConfigError where the template refuses the messages.
  Conversation render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools) const;
  // The messages, and what the template puts in front of an answer.
  std::string prompt(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools) const;

 private:
  Text render_marked(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools, bool prompts) const;
  void count_turns(const Text& text, std::string& counts) const;
  bool count_with_empty_answers(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                                Conversation& conversation) const;

  Template template_;
  Map tokens_;
  std::string before_answer_, behind_answer_;  // what the template puts there; may be empty
};

}  // namespace zrt::runtime::data::chat
