// zrt data show.
#include "catch.h"
#include "program.h"

namespace zrt::data_show_test {
namespace {

using namespace zrt::testing;

const std::string chat = std::string(ZRT_TEST_DATA) + "/finetuning/qwen3";

std::string show(const Folder& folder, const std::string& more) {
  return "data show --chat " + chat + " " + more + " " + (folder / "chats.jsonl");
}

TEST_CASE("zrt data show marks what of a conversation counts") {
  const Folder folder("data_show");
  folder.write("chats.jsonl",
               R"({"messages": [{"role": "user", "content": "Hi \u001b[31m"}, {"role": "assistant", "content": "Ho"}]}
{"prompt": "1+1?", "completion": "2"}
{"text": "x"}
)");
  const Result first = run_zrt(show(folder, ""));
  CHECK(first.code == 0);
  CHECK_THAT(first.text,
             Catch::Contains("<|im_start|>user\nHi \\x1b[31m<|im_end|>\n<|im_start|>assistant\n⟦Ho<|im_end|>⟧\n"));
  CHECK_THAT(first.text, Catch::Contains("line 1: 71 bytes, of which 12 count\n"));
  const Result second = run_zrt(show(folder, "--line 2 --json"));
  REQUIRE(second.code == 0);
  const auto json = nlohmann::json::parse(second.text);
  CHECK(json["counted_bytes"] == 11);
  CHECK(json["counted"] == nlohmann::json::parse("[[54, 65]]"));
  CHECK(json["text"].get<std::string>().substr(54, 11) == "2<|im_end|>");
}

TEST_CASE("zrt data show refuses lines that are no conversation, and those that are not there") {
  const Folder folder("data_show_refused");
  folder.write("chats.jsonl", "{\"text\": \"x\"}\n");
  const Result other = run_zrt(show(folder, ""));
  CHECK(other.code == 1);
  CHECK_THAT(other.text, Catch::Contains("chats.jsonl: line 1: the line has neither 'messages' nor"));
  CHECK_THAT(run_zrt(show(folder, "--line 2")).text, Catch::Contains("chats.jsonl has 1 line; --line is 2"));
  CHECK(run_zrt(show(folder, "--line 0")).code == 2);
  const Result plain = run_zrt("data show " + (folder / "chats.jsonl"));
  CHECK(plain.code == 2);
  CHECK_THAT(plain.text, Catch::Contains("--chat is missing"));
  const Result folder_without = run_zrt("data show --chat " + (folder / "") + " " + (folder / "chats.jsonl"));
  CHECK(folder_without.code == 2);
  CHECK_THAT(folder_without.text, Catch::Contains("has no chat template"));
}

}  // namespace
}  // namespace zrt::data_show_test
