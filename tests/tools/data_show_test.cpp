// zrt data show.
#include <algorithm>

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
  CHECK_THAT(first.text, Catch::Contains("line 1: 71 bytes, of which 12 count; "));
  const Result second = run_zrt(show(folder, "--line 2 --json"));
  REQUIRE(second.code == 0);
  const auto json = nlohmann::json::parse(second.text);
  CHECK(json["counted_bytes"] == 11);
  CHECK(json["counted"] == nlohmann::json::parse("[[54, 65]]"));
  CHECK(json["text"].get<std::string>().substr(54, 11) == "2<|im_end|>");
  const auto ids = json["ids"].get<std::vector<int>>(), counts = json["token_counts"].get<std::vector<int>>();
  REQUIRE(ids.size() == counts.size());
  CHECK(std::count(ids.begin(), ids.end(), 319) == 2);  // <|im_end|>
  CHECK(std::vector<int>(counts.end() - 3, counts.end()) == std::vector<int>{1, 1, 0});
  CHECK(std::vector<int>(ids.end() - 2, ids.end() - 1) == std::vector<int>{319});
  CHECK(std::count(counts.begin(), counts.end(), 1) == 2);
}

TEST_CASE("zrt data show marks what of a dataset's document counts") {
  const Folder folder("data_show_dataset");
  folder.write("chats.jsonl",
               "{\"prompt\": \"Hi\", \"completion\": \"Ho\"}\n{\"prompt\": \"1+1?\", \"completion\": \"2\"}\n");
  const Result built =
      run_zrt("data build --chat " + chat + " --out " + (folder / "x") + " " + (folder / "chats.jsonl"));
  CHECK(built.code == 0);
  CHECK_THAT(built.text, Catch::Contains("x.bin/.idx: 2 documents, ") && Catch::Contains(" %) count\n"));
  const Result second = run_zrt("data show --document 1 " + (folder / "x"));
  CHECK(second.code == 0);
  CHECK_THAT(second.text, Catch::Contains("<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n⟦2<|im_end|>⟧\n"));
  CHECK_THAT(second.text, Catch::Contains("tokens, of which 2 count\n"));
  const auto json = nlohmann::json::parse(run_zrt("data show --json --document 1 " + (folder / "x")).text);
  const auto line = nlohmann::json::parse(run_zrt(show(folder, "--line 2 --json")).text);
  CHECK((json["ids"] == line["ids"] && json["token_counts"] == line["token_counts"]));
  CHECK_THAT(run_zrt("data show --document 2 " + (folder / "x")).text,
             Catch::Contains("it has 2 documents, from 0; --document is 2"));
  CHECK(run_zrt("data show --document -1 " + (folder / "x")).code == 2);
  CHECK(run_zrt("data show --document 0 --line 2 " + (folder / "x")).code == 2);
  CHECK(run_zrt("data build --chat " + (folder / "") + " --out " + (folder / "y") + " " + (folder / "chats.jsonl"))
            .code == 2);
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
