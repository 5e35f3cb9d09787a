// Chat templates against what transformers makes of the same conversations (tests/data/make_chat_goldens.py).
#include "runtime/data/chat/chat_template.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::chat_template_test {
namespace {

using namespace zrt::runtime::data::chat;
using nlohmann::ordered_json;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;

const std::string folder = std::string(ZRT_TEST_DATA) + "/chat/";

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const ordered_json& goldens() {
  static const ordered_json goldens = ordered_json::parse(text_of_file(folder + "goldens.json"));
  return goldens;
}

std::map<std::string, std::string> tokens() {
  return goldens()["tokens"].get<std::map<std::string, std::string>>();
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// A template, or its copy with a {% generation %} block where its comments say.
std::string source_of(const std::string& family, bool with_blocks) {
  std::string source = text_of_file(folder + family + ".jinja");
  if (!with_blocks) return source;
  replace_all(source, "{#- answer #}", "{%- generation %}");
  replace_all(source, "{# answer -#}", "{% generation -%}");
  replace_all(source, "{# answer #}", "{% generation %}");
  replace_all(source, "{#- answered #}", "{%- endgeneration %}");
  replace_all(source, "{# answered -#}", "{% endgeneration -%}");
  replace_all(source, "{# answered #}", "{% endgeneration %}");
  return source;
}

// The counted parts of a text, one behind the other, each behind its place.
std::string counted(const Conversation& conversation) {
  std::string all;
  for (size_t at = 0; at < conversation.counts.size(); ++at) {
    const bool begins = conversation.counts[at] != 0 && (at == 0 || conversation.counts[at - 1] == 0);
    if (begins) all += fmt::format("\n{}: ", at);
    if (conversation.counts[at] != 0) all += conversation.text[at];
  }
  return all;
}

std::string counted(const std::string& text, const ordered_json& spans) {
  Conversation conversation{text, std::string(text.size(), 0)};
  for (const auto& span : spans) {
    for (size_t at = span[0]; at < span[1].get<size_t>(); ++at) conversation.counts[at] = 1;
  }
  return counted(conversation);
}

// Goes through all goldens; blocks: of the copies.
void check_goldens(bool blocks) {
  int checked = 0;
  for (const ordered_json& golden : goldens()["cases"]) {
    const std::string family = golden["template"], name = golden["conversation"];
    INFO(golden.dump());
    const ChatTemplate chat(source_of(family, blocks), tokens());
    const ordered_json& messages = goldens()["conversations"][name];
    const ordered_json tools = golden["tools"] ? goldens()["tools"] : ordered_json(nullptr);
    ++checked;
    if (golden.contains("refused")) {
      CHECK(contains(error_of<ConfigError>([&] { chat.render(messages, tools); }), "refuses the conversation: "));
    } else if (golden["prompts"]) {
      CHECK(chat.prompt(messages, tools) == golden["text"]);
    } else {
      const Conversation conversation = chat.render(messages, tools);
      CHECK(conversation.text == golden["text"]);
      CHECK(counted(conversation) == counted(golden["text"], golden["counted"]));
    }
  }
  CHECK(checked == 200);
}

TEST_CASE("texts and what counts of them are those of transformers, of five families") {
  check_goldens(false);
}

TEST_CASE("generation blocks mark what transformers' assistant mask has") {
  check_goldens(true);
}

std::string printed(const std::string& source) {
  return Template(source).render({}).bytes;
}

std::string refusal(const std::string& source) {
  return error_of<ConfigError>([&] { printed(source); });
}

TEST_CASE("the end of an empty answer counts, as in copies of the templates with generation blocks") {
  const ordered_json messages = ordered_json::parse(
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "again"},
          {"role": "assistant", "content": "yes"}])");
  for (const char* family : {"chatml", "llama3", "gemma", "qwen3"}) {
    const Conversation plain = ChatTemplate(source_of(family, false), tokens()).render(messages, nullptr);
    const Conversation marked = ChatTemplate(source_of(family, true), tokens()).render(messages, nullptr);
    CAPTURE(family, plain.text);
    CHECK(plain.text == marked.text);
    CHECK(counted(plain) == counted(marked));
  }
}

TEST_CASE("keys that are null are left out, and a thought has all of its names") {
  const std::string source =
      "{% for m in messages %}{{ m.role }}:{{ m.content is defined }}:{{ m.thinking }}:{{ m.reasoning_content }};{% "
      "endfor %}";
  const auto text = [&](const char* message) {
    const ordered_json messages = ordered_json::array({ordered_json::parse(message)});
    return ChatTemplate(source + "{{ 'answer' if messages[-1].content == 'answer' else '' }}", {})
        .render(messages, nullptr)
        .text;
  };
  CHECK(text(R"({"role": "assistant", "content": null, "reasoning": "so"})") == "assistant:False:so:so;");
  CHECK(text(R"({"role": "assistant", "content": "a", "thinking": "t", "reasoning_content": "r"})") ==
        "assistant:True:t:r;");
}

TEST_CASE("the language is Jinja's") {
  for (const ordered_json& snippet : goldens()["snippets"]) {
    INFO(snippet["source"]);
    CHECK(printed(snippet["source"]) == snippet["text"]);
  }
}

TEST_CASE("line feeds of Windows end lines of a template like others") {
  CHECK(printed("{% if true %}\r\na\r\n{% endif %}\r\nb\r\n") == "a\nb");
}

TEST_CASE("what is not known of a template is refused with its line") {
  CHECK(contains(refusal("a\n{{ 'b' | wordwrap }}"),
                 "line 2 of the template: the filter 'wordwrap' is not known; known"));
  CHECK(contains(refusal("{{ 1 is prime }}"), "the test 'prime' is not known"));
  CHECK(contains(refusal("{{ 'a'.encode() }}"), "the method of a text 'encode' is not known"));
  CHECK(contains(refusal("\n\n{% include 'x' %}"), "line 3 of the template: 'include' is not known; known are set,"));
  CHECK(contains(refusal("{{ cycler('a') }}"), "the function 'cycler' is not known"));
  CHECK(contains(refusal("{{ {} }}"), "a mapping is printed as it is, which only Python can"));
  CHECK(contains(refusal("{{ '\\u00e9' }}"), "'\\u' in a text is not known"));
  CHECK(contains(refusal("{{ none.a + 1 }}"), "'a'"));
  CHECK(contains(refusal("{{ x.y.z }}"), "'x' is not defined"));
}

TEST_CASE("a broken template is refused with its line") {
  CHECK(contains(refusal("{{ 1"), "line 1 of the template: a tag has no end '}}'"));
  CHECK(contains(refusal("\n{# x"), "line 2 of the template: a comment '{#' has no end"));
  CHECK(contains(refusal("{{ 'a }}"), "a text has no end"));
  CHECK(contains(refusal("{% if true %}a"), "'endif' is missing at the end"));
  CHECK(contains(refusal("{% for a in [1] %}"), "'endfor' is missing at the end"));
  CHECK(contains(refusal("{% endif %}"), "'endif' is not known"));
  CHECK(contains(refusal("{{ 1 + }}"), "'}}' stands where a value should"));
  CHECK(contains(refusal("{{ (1, 2 }}"), "a tag has no end"));
  CHECK(contains(refusal("{{ [1 2] }}"), "'2' stands where ',' should"));
  CHECK(contains(refusal("{{ 1 $ 2 }}"), "'$' is no part of an expression"));
  CHECK(contains(refusal("{{ 99999999999999999999 }}"), "is too large"));
  CHECK(contains(refusal("{{ 1 // 0 }}"), "a division by 0"));
  CHECK(contains(refusal("{% set a, b = [1] %}"), "1 values for 2 names"));
  CHECK(contains(refusal("{{ range(1000000) }}"), "'range' is too long"));
}

TEST_CASE("a template as deep as no stack holds is refused") {
  constexpr int many = 100'000;
  std::string statements;
  for (int i = 0; i < many; ++i) statements += "{% if true %}";
  CHECK(contains(refusal("{{ " + std::string(many, '(') + "1" + std::string(many, ')') + " }}"),
                 "too deep in each other"));
  CHECK(contains(refusal(statements), "too deep in each other"));
  CHECK(contains(refusal("{{ " + std::string(many, '-') + "1 }}"), "too deep in each other"));
  CHECK(contains(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "calls itself too deep"));
}

TEST_CASE("a template that runs or prints without an end is refused") {
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = b %}{% endfor %}{% endfor %}";
  CHECK(contains(refusal(loops), "the template runs without an end"));
  std::string doubled = "{% set x = namespace(t='0123456789abcdef') %}";
  CHECK(contains(refusal(doubled + "{% for a in range(99) %}{% set x.t = x.t ~ x.t %}{% endfor %}"),
                 "a text of more than"));
  doubled = "{% set x = namespace(t=[0]) %}";
  CHECK(
      contains(refusal(doubled + "{% for a in range(99) %}{% set x.t = x.t + x.t %}{% endfor %}"), "a list too long"));
}

TEST_CASE("numbers and lists beyond all bounds are refused") {
  CHECK(contains(refusal("{{ 9223372036854775807 + 1 }}"), "a number is too large"));
  CHECK(contains(refusal("{{ -9223372036854775807 - 2 }}"), "a number is too large"));
  CHECK(contains(refusal("{{ 4611686018427387904 * 2 }}"), "a number is too large"));
  CHECK(contains(refusal("{{ 1e300 | int }}"), "a number is too large"));
  CHECK(
      printed(
          "{{ [1, 2, 3][::9223372036854775807] | tojson }}{{ range(9e1 | int, 91, 9223372036854775807) | tojson }}") ==
      "[1][90]");
  CHECK(contains(refusal("{{ {} | tojson(indent=1000000000) }}"), "an indent of 0 to 16"));
  CHECK(contains(refusal("{{ [1] | map }}"), "'map' takes"));
  const std::string loop = "{% for a in range(999) %}", end = "{% endfor %}";
  CHECK(contains(refusal("{% set x = namespace(t=[]) %}" + loop + "{% set x.t = [x.t] %}" + end),
                 "too deep in each other"));
  CHECK(contains(refusal("{% set x = [] %}" + loop + "{{ x.append(x) }}" + end), "are too large"));
  CHECK(
      contains(refusal("{% set x = namespace(t=[]) %}" + loop + "{% set x.t = [x.t, x.t] %}" + end), "are too large"));
  CHECK(printed("{% set n = namespace(a=1) %}{% set n.self = n %}{{ n.self | tojson }}") == R"({"a": 1})");
}

TEST_CASE("a folder's template is its file, else what its tokenizer_config.json says") {
  const TemporaryFolder made;
  const ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "a"}])");
  const auto text = [&] { return ChatTemplate::of_folder(made / "").prompt(messages, nullptr); };
  const std::string none = error_of<ConfigError>(text);
  CHECK(contains(none, "has no chat template: neither chat_template.jinja nor"));
  const std::string body = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
  const ordered_json config{{"eos_token", {{"content", "</e>"}}}, {"chat_template", body}};
  write_file(made / "tokenizer_config.json", config.dump());
  CHECK(text() == "a</e>");
  ordered_json several = config;
  several["chat_template"] = ordered_json::parse(R"([{"name": "tool_use", "template": "x"}])");
  several["chat_template"].push_back({{"name", "default"}, {"template", body + "!"}});
  write_file(made / "tokenizer_config.json", several.dump());
  CHECK(text() == "a</e>!");
  write_file(made / "chat_template.jinja", "own {{ messages[0].content }}{{ messages[-1].content }}");
  CHECK(text() == "own aa");
  write_file(made / "chat_template.jinja", "{{ messages[0].content | wordwrap }}");
  CHECK(contains(error_of<ConfigError>(text), "chat_template.jinja: the chat template cannot be used: line 1"));
  write_file(made / "chat_template.jinja", "{{ messages[0].content }}");
  CHECK(contains(error_of<ConfigError>(text), "the template leaves out what an assistant says"));
}

}  // namespace
}  // namespace zrt::chat_template_test
