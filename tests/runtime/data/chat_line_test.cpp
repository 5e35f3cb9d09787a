// Conversations out of lines of JSON.
#include "runtime/data/chat/chat_line.h"

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::chat_line_test {
namespace {

using namespace zrt::runtime::data::chat;
using test::contains;
using test::error_of;

std::string refusal(const std::string& line) {
  return error_of<zrt::core::ConfigError>([&] { read_chat_line(line); });
}

TEST_CASE("a line has messages, or a prompt and a completion") {
  const std::string user = R"({"role":"user","content":"a"})", answer = R"({"role":"assistant","content":"b"})";
  const std::string both = "[" + user + "," + answer + "]";
  CHECK(read_chat_line(R"({"id": 3, "messages": )" + both + "}").messages.dump() == both);
  CHECK(read_chat_line(R"({"prompt": "a", "completion": "b"})").messages.dump() == both);
  CHECK(read_chat_line(R"({"prompt": [)" + user + R"(], "completion": [)" + answer + "]}").messages.dump() == both);
  CHECK(read_chat_line(R"({"messages": )" + both + "}").tools.is_null());
  CHECK(read_chat_line(R"({"tools": [{"name": "t"}], "messages": )" + both + "}").tools.dump() == R"([{"name":"t"}])");
}

TEST_CASE("a line that is no conversation is refused with the reason") {
  CHECK(refusal("{") == "the line is no JSON, or not UTF-8");
  CHECK(refusal("{\"messages\": \"\xff\"}") == "the line is no JSON, or not UTF-8");
  CHECK(refusal("[1]") == "the line is no object");
  CHECK(refusal("{}") == "the line has neither 'messages' nor 'prompt' and 'completion'; it has none");
  CHECK(contains(refusal(R"({"text": "x", "prompt": "y"})"), "it has 'text', 'prompt'"));
  CHECK(refusal(R"({"messages": []})") == "'messages' is no list with a message");
  CHECK(refusal(R"({"messages": {"role": "user"}})") == "'messages' is no list with a message");
  CHECK(refusal(R"({"messages": [{"role": "user"}, {"from": "gpt"}]})") == "message 2 has no 'role' that is a text");
  CHECK(contains(refusal(R"({"messages": [{"role": "user", "content": "a"}]})"), "no message is an assistant's"));
  CHECK(refusal(R"({"prompt": 1, "completion": "a"})") == "'prompt' is neither a text nor a list of messages");
  CHECK(refusal(R"({"tools": 1, "prompt": "q", "completion": "a"})") == "'tools' is neither a list nor null");
  CHECK(contains(refusal(std::string(100'000, '[')), "more than 64 deep"));
}

}  // namespace
}  // namespace zrt::chat_line_test
