// A chat template and a line with a conversation, both from anywhere: the line stands first.
#include "runtime/data/chat/chat_template.h"

#include "core/error.h"
#include "runtime/data/chat/chat_line.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace chat = runtime::data::chat;

bool accepts(std::string_view input) {
  try {
    const size_t end = std::min(input.find('\n'), input.size());
    const chat::ChatLine line = chat::read_chat_line(input.substr(0, end));
    const chat::ChatTemplate made(input.substr(std::min(end + 1, input.size())), {{"bos_token", "<s>"}});
    const chat::Conversation conversation = made.render(line.messages, line.tools);
    require(conversation.counts.size() == conversation.text.size(), "each byte counts or does not");
    require(made.render(line.messages, line.tools).text == conversation.text, "a conversation has the same text again");
    return true;
  } catch (const core::ConfigError&) {
    return false;
  }
}

std::map<std::string, std::string> seeds() {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": " b"}]})";
  return {
      {"turns", messages + "\n{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}<end>{% endfor %}"},
      {"macro", messages + "\n{%- macro m(a, b=1) %}{{ a ~ b }}{% endmacro %}{{ m(messages[-1].content) }}"},
      {"loop",
       R"({"prompt": "q", "completion": "c", "tools": [{"a": [1, null, 2.5]}]})"
       "\n{% set n = namespace(x=0) %}{% for t in tools or [] %}{{ t | tojson(indent=1) }}{% set n.x = n.x + 1 %}"
       "{% endfor %}{{ messages[::-1] | map(attribute='content') | join(',') }}{% if n.x > 0 %}!{% endif %}"},
      {"blocks", messages + "\n{% for m in messages %}{% generation %}{{ m.content.split('a')[0] }}{% endgeneration %}"
                            "{% if loop.last %}{% break %}{% endif %}{% endfor %}"}};
}

}  // namespace

const Target chat_template{"chat_template",
                           accepts,
                           seeds,
                           {"{%",          "{%-",          "%}",         "-%}",           "{{",         "}}",
                            "{#",          "#}",           "endfor",     "endif",         "elif",       "else",
                            "endset",      "endmacro",     "generation", "endgeneration", "namespace(", "range(",
                            "loop.index0", "is defined",   "not in",     "| selectattr(", "| tojson",   "| replace(",
                            "[::-1]",      "strftime_now("}};

}  // namespace zrt::fuzz
