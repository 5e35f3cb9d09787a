// Tests tell which texts ids stand for in the files of tokenizers, and where two files differ.
#include "runtime/data/token_texts.h"

#include <fstream>
#include <sstream>

#include "catch.h"
#include "tests/data_folder.h"

namespace zrt::token_texts_test {

using namespace zrt::runtime::data;

namespace {

std::string contents(const std::string& name) {
  std::ifstream in(zrt::test::data_folder() + "/" + name, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

}  // namespace

TEST_CASE("a file of each form says the texts of its ids") {
  const std::string json = R"({"added_tokens": [{"id": 2, "content": "<end>"}, {"content": "none"}, 7],
                               "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": "one"}}})";
  const auto bpe = read_token_texts("tokenizer.json", json);
  REQUIRE(bpe);
  CHECK(bpe->texts == std::map<int64_t, std::string>{{0, "a"}, {1, "b"}, {2, "<end>"}});
  const auto unigram = read_token_texts("tokenizer.json", R"({"model": {"vocab": [["a", -1.5], ["b", -2]]}})");
  REQUIRE(unigram);
  CHECK(unigram->texts == std::map<int64_t, std::string>{{0, "a"}, {1, "b"}});
  CHECK(read_token_texts("vocab.json", R"({"a": 0, "b": 1})")->texts == unigram->texts);
  CHECK(read_token_texts("vocab.txt", "[UNK]\nb\n")->texts == std::map<int64_t, std::string>{{0, "[UNK]"}, {1, "b"}});
  const auto pieces = read_token_texts("tokenizer.model", contents("few_shot/tokenizer.model"));
  REQUIRE(pieces);
  CHECK(pieces->texts.size() > 256);
  CHECK(pieces->texts.at(3) == "<0x00>");
  CHECK(byte_texts().texts.at('a') == "a");
}

TEST_CASE("what is no file of a tokenizer says nothing") {
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model"}) {
    CAPTURE(name);
    CHECK(!read_token_texts(name, "another\n\x01\xff"));
    CHECK(!read_token_texts(name, ""));
  }
  CHECK(!read_token_texts("tokenizer.json", "[1]"));
  CHECK(!read_token_texts("tokenizer.json", R"({"model": 3})"));
  CHECK(!read_token_texts("merges.txt", "a b"));
}

TEST_CASE("two files differ where an id that both have is another text, whatever their sizes") {
  const TokenTexts one{"tokenizer.json", {{0, "a"}, {1, "b"}}}, more{"vocab.txt", {{0, "a"}, {1, "b"}, {2, "c"}}},
      other{"tokenizer.model", {{0, "a"}, {1, "d"}, {2, "c"}}};
  CHECK(different_token(one, one).empty());
  CHECK(different_token(one, more).empty());
  CHECK(different_token(more, one).empty());
  CHECK(different_token(one, other) == "tokenizer.json of 2 tokens has 'b' as 1, tokenizer.model of 3 has 'd'");
}

}  // namespace zrt::token_texts_test
