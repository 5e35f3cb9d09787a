// Ids of conversations, and which of them count, against transformers (tests/data/make_chat_goldens.py).
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/chat/chat_template.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/sentencepiece_training.h"
#include "runtime/data/tokenizer_json/counted_part.h"
#include "runtime/data/tokenizer_json/tokenizer_json.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::chat_tokens_test {
namespace {

using namespace zrt::runtime::data;
using nlohmann::ordered_json;
using test::contains;
using test::error_of;
using tokenizer_json::CountedPart;
using tokenizer_json::JsonTokenizer;

const std::string folder = std::string(ZRT_TEST_DATA) + "/";

ordered_json json_of(const std::string& name) {
  return ordered_json::parse(test::read_file(folder + name));
}

JsonTokenizer tokenizer_of(const std::string& name, const ordered_json& added) {
  ordered_json file = json_of("tokenizers/" + name + ".json");
  for (const ordered_json& token : added) file["added_tokens"].push_back(token);
  return {file.dump(), name, {"0", ""}};
}

struct Counted {
  std::vector<int32_t> ids;
  std::string mask;
  bool operator==(const Counted&) const = default;
};

Counted encoded(const Tokenizer& tokenizer, const std::string& text, const std::string& counts) {
  Counted result;
  std::vector<uint8_t> counted;
  tokenizer.encode_counted(text, counts, result.ids, counted);
  for (const uint8_t each : counted) result.mask += each != 0 ? '1' : '0';
  return result;
}

// `marked`: a text in which [ and ] stand around what counts.
Counted encoded(const Tokenizer& tokenizer, const std::string& marked) {
  std::string text, counts;
  char mark = 0;
  for (const char c : marked) {
    if (c == '[' || c == ']') {
      mark = c == '[' ? 1 : 0;
    } else {
      text += c, counts += mark;
    }
  }
  return encoded(tokenizer, text, counts);
}

}  // namespace

TEST_CASE("ids of conversations and those that count are transformers'", "[data]") {
  const ordered_json goldens = json_of("chat/token_goldens.json"), texts = json_of("chat/goldens.json");
  int checked = 0;
  for (const ordered_json& family : goldens["families"]) {
    const JsonTokenizer tokenizer = tokenizer_of(family["tokenizer"], family["added_tokens"]);
    const std::string name = family["template"];
    const chat::ChatTemplate chat_template(test::read_file(folder + "chat/" + name + ".jinja"),
                                           texts["tokens"].get<std::map<std::string, std::string>>());
    for (const ordered_json& golden : family["cases"]) {
      const std::string conversation = golden["conversation"];
      INFO(name << ", " << family["tokenizer"] << ", " << conversation);
      const ordered_json& messages =
          texts["conversations"].contains(conversation) ? texts["conversations"][conversation] : goldens["composed"];
      const chat::Conversation made = chat_template.render(messages, texts["tools"]);
      const Counted counted = encoded(tokenizer, made.text, made.counts);
      CHECK(counted.ids == golden["ids"].get<std::vector<int32_t>>());
      CHECK(counted.mask == golden["mask"]);
      std::vector<int32_t> plain;
      tokenizer.encode(made.text, plain);
      CHECK(plain == counted.ids);
      ++checked;
    }
  }
  CHECK(checked == 79);
}

TEST_CASE("a token counts where one byte of it does", "[data]") {
  const JsonTokenizer bytes = tokenizer_of("gpt2", ordered_json::array());
  const Counted all = encoded(bytes, "what is the kernel? 😀");
  const std::vector<std::string> texts{"wh[at] is the k[ern]el? 😀", "[w]hat is the kernel? 😀",
                                       "what is the kernel? [😀]", "what[ ]is the kernel? 😀", "what is the kernel?[ 😀]"};
  for (const std::string& text : texts) {
    INFO(text);
    const Counted counted = encoded(bytes, text);
    CHECK(counted.ids == all.ids);
    std::string expected;
    std::vector<int32_t> ids;
    size_t before = 0;
    std::string plain, marks;
    char mark = '0';
    for (const char c : text) {
      if (c == '[' || c == ']')
        mark = c == '[' ? '1' : '0';
      else
        plain += c, marks += mark;
    }
    for (const int32_t id : counted.ids) {
      ids.push_back(id);
      const size_t behind = bytes.decode(ids).size();
      expected += marks.substr(before, behind - before).find('1') != std::string::npos ? '1' : '0';
      before = behind;
    }
    CHECK(counted.mask == expected);
    CHECK(contains(expected, "1"));
  }
}

TEST_CASE("the byte tokenizer's tokens count as bytes do, and SentencePiece's do not say", "[data]") {
  CHECK(encoded(ByteTokenizer(), "a[é]b") == Counted{{'a', 0xc3, 0xa9, 'b'}, "0110"});
  SentencePieceTraining training(512, 10000);
  for (int i = 0; i < 100; ++i) training.add("some words and some more words of some text, and some more of it\n");
  const SentencePieceTokenizer pieces(training.train(), "x.model");
  CHECK(contains(error_of<core::ConfigError>([&] { encoded(pieces, "a[b]"); }), "Take the tokenizer.json"));
}

TEST_CASE("a place between characters that a normalizer joins takes both along", "[data]") {
  // The flat text of "ae◌́x" is "aéx".
  const std::string joined = "a\u00e9x", part = "ae\u0301x";
  const CountedPart::Flatten flatten = [&](std::string_view beginning) {
    return beginning == part ? joined : beginning == "ae\u0301" ? "a\u00e9" : std::string(beginning);
  };
  const auto mask = [&](const std::vector<std::string>& tokens, const std::string& counts) {
    CountedPart counted;
    counted.add(joined, tokens);
    std::vector<uint8_t> out;
    counted.count(part, counts, flatten, out);
    return out;
  };
  using Mask = std::vector<uint8_t>;
  const std::string mark("\0\0\1\1\0", 5), letter("\0\1\0\0\0", 5), last("\0\0\0\0\1", 5);
  CHECK(mask({"a", "\u00e9", "x"}, mark) == Mask{0, 1, 0});
  CHECK(mask({"a", "\u00e9", "x"}, letter) == Mask{0, 1, 0});
  CHECK(mask({"a", "\u00e9", "x"}, last) == Mask{0, 0, 1});
  CHECK(mask({"a", "\xc3", "\xa9x"}, mark) == Mask{0, 1, 1});
  // Tokens that do not spell their part of the piece are only known together.
  CHECK(mask({"<unk>", "x"}, std::string(5, '\1')) == Mask{1, 1});
  CHECK(mask({"<unk>", "x"}, std::string(5, '\0')) == Mask{0, 0});
  CHECK(mask({"<unk>"}, mark) == Mask{1});
  CHECK(mask({"<unk>", "x"}, last) == Mask{0, 1});
  CHECK(mask({"a", "<unk>"}, std::string("\1\0\0\0\0", 5)) == Mask{1, 0});
  CHECK(mask({"a", "<unk>", "x"}, mark) == Mask{0, 1, 0});
  CHECK(mask({"a", "<unk>", "<unk>"}, std::string("\1\0\0\0\0", 5)) == Mask{1, 0, 0});
  CHECK(contains(
      error_of<core::DataError>([&] {
        mask({"a", "<unk>", "<unk>"}, mark);
      }),
      "a part of 'éx' counts, but the tokenizer's tokens do not spell it, so it is not known which of them do"));
  CHECK(contains(error_of<core::DataError>([&] { mask({"a", "\u00e9"}, mark); }), "a part of 'aéx' counts"));
}

TEST_CASE("a normalizer that leaves no place alike is refused", "[data]") {
  CountedPart counted;
  counted.add(std::string(200, 'b'), {std::string(200, 'b')});
  std::vector<uint8_t> out;
  CHECK(contains(error_of<core::DataError>([&] {
                   counted.count(
                       std::string(200, 'a'), std::string(100, '\0') + std::string(100, '\1'),
                       [](std::string_view text) { return std::string(text); }, out);
                 }),
                 "so that it is not known which of its tokens count"));
}

}  // namespace zrt::chat_tokens_test
