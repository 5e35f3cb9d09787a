// zrt refuses by name what a tokenizer.json asks for and it does not have; a dataset keeps its tokenizer and its end of
// documents.
#include <filesystem>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/tokenizer_json/regex.h"
#include "runtime/data/tokenizer_json/tokenizer_json.h"
#include "runtime/data/tokenizer_json/unicode.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/tokenizer_texts.h"

namespace zrt::data_tokenizer_json_refusal_test {

using runtime::data::tokenizer_json::JsonTokenizer;
using runtime::data::tokenizer_json::pcre_pattern;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using Json = nlohmann::json;
using namespace zrt::runtime::data;

namespace {

Json small_file() {
  return Json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<end>", "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::string refusal(const Json& file) {
  return error_of<core::DataError>([&] { JsonTokenizer(file.dump(), "t.json", {"<end>", ""}); });
}

}  // namespace

TEST_CASE("a type that zrt does not have is refused by its place and name, with those that it has") {
  const JsonTokenizer good(small_file().dump(), "t.json", {"<end>", ""});
  CHECK(ids_of(good, "ab b<end>a") == std::vector<int32_t>{2, 1, 3, 0});
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}) {
    Json file = small_file();
    file[part] = {{"type", "Telepathy"}};
    const std::string message = refusal(file);
    INFO(message);
    CHECK(contains(message, std::string("t.json: ") + part + ".type is \"Telepathy\"; zrt knows the "));
  }
  Json file = small_file();
  file["decoder"] = {{"type", "CTC"}, {"pad_token", "<pad>"}};
  CHECK(contains(refusal(file), "CTC is of speech"));
  file = small_file();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}, {"colour", 1}}}}};
  CHECK(contains(refusal(file), "pre_tokenizer.pretokenizers[0].colour is 1; zrt does not know this key here"));
  file = small_file();
  file["soul"] = 1;
  CHECK(contains(refusal(file), "soul is 1; zrt does not know this key here"));
}

TEST_CASE("values that a tokenizer.json cannot have are refused by key and value") {
  const auto changed = [](const std::function<void(Json&)>& change) {
    Json file = small_file();
    change(file);
    return refusal(file);
  };
  CHECK(contains(changed([](Json& f) { f["model"]["dropout"] = 0.1; }),
                 "model.dropout is 0.1; zrt leaves out no merges"));
  CHECK(contains(changed([](Json& f) { f["model"]["merges"][0] = "a c"; }),
                 "model.merges[0] needs the token 'c', which is not in the vocabulary"));
  CHECK(contains(changed([](Json& f) { f["model"]["merges"][0] = "abc"; }),
                 "model.merges[0] is \"abc\"; it must be a pair"));
  CHECK(contains(changed([](Json& f) { f["model"]["vocab"]["c"] = 1 << 30; }),
                 "model.vocab gives 'c' the id 1073741824"));
  CHECK(
      contains(changed([](Json& f) { f["model"]["unk_token"] = "?"; }), "model.unk_token is \"?\"; it must be in the"));
  CHECK(contains(changed([](Json& f) { f["added_tokens"][0]["content"] = "a"; }),
                 "added_tokens[0].id is 3; the model's vocabulary has 'a' as 0"));
  CHECK(contains(changed([](Json& f) { f["added_tokens"][0]["id"] = 2; }),
                 "added_tokens[0].id is 2; the model's vocabulary has 'ab' there"));
  CHECK(contains(changed([](Json& f) {
                   f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
                 }),
                 "pre_tokenizer.pattern is the regular expression '(a'; zrt cannot run it: "));
  CHECK(contains(changed([](Json& f) {
                   f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Melted"}};
                 }),
                 "legal are Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous"));
  CHECK(contains(changed([](Json& f) {
                   f["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", false}};
                 }),
                 "pre_tokenizer.add_prefix_space is false; it contradicts prepend_scheme"));
  CHECK(contains(changed([](Json& f) {
                   f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}};
                 }),
                 "it is truncated or corrupt"));
  const auto charsmap = [&](const char* base64) {
    return changed([&](Json& f) { f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base64}}; });
  };
  CHECK(contains(charsmap("not base64"), "it must be a charsmap of SentencePiece in base64"));
  CHECK(contains(charsmap("AAA="), "it must be a charsmap of SentencePiece in base64"));
  CHECK(contains(charsmap("BAAAAA=="), "its double array has 4 bytes of the 0 there are; it is truncated or corrupt"));
  CHECK(contains(charsmap("AgAAAAAA"), "its double array has 2 bytes of the 2 there are; it is truncated or corrupt"));
  CHECK(contains(charsmap("BAAAAAAAAACA"), "its text at byte 0 is not UTF-8; it is corrupt"));
  CHECK(contains(error_of<core::DataError>([] { JsonTokenizer("{\"model\": \"\\ud800\"}", "t.json", {}); }),
                 "t.json: the file is not JSON"));
  // Printing so deep a value would overflow the stack.
  const std::string deep = "{\"model\": " + std::string(300000, '[') + std::string(300000, ']') + "}";
  CHECK(contains(error_of<core::DataError>([&] { JsonTokenizer(deep, "t.json", {}); }), "model is a list"));
  CHECK(contains(error_of<core::DataError>([] { JsonTokenizer("{}", "t.json", {}); }),
                 "model is missing; it must be there: this is no tokenizer.json of Hugging Face"));
}

TEST_CASE(
    "classes inside classes, Ruby's flags and repeats are written in PCRE2's words, and what cannot be is refused") {
  CHECK(pcre_pattern("[a[bc]]") == "[abc]");
  CHECK(pcre_pattern("(?m:.)") == "(?s:.)");
  CHECK(pcre_pattern("\\p{N}{1,3}+x") == "(?:\\p{N}{1,3})+x");
  CHECK(pcre_pattern("a{,2}") == "a{0,2}");
  CHECK(pcre_pattern("\\u0041") == "\\x{0041}");
  CHECK(pcre_pattern("\\x41{2}+x") == "(?:\\x{41}{2})+x");
  CHECK(pcre_pattern("[\\x41-\\x{1F600}\\v]\\v\\x4") == "[\\x{41}-\\x{1F600}\\x{b}]\\x{b}\\x{4}");
  CHECK(pcre_pattern("a(?i)b|c") == "a(?i:b|c)");
  CHECK(pcre_pattern("(a(?i)b|(?-i)c)d") == "(a(?i:b|(?-i:c)))d");
  CHECK(pcre_pattern("(?:(?i:a)b)") == "(?:(?i:a)b)");
  for (const char* pattern : {"[a&&b]", "[a[^b]]", "[\\W]", "\\K", "[abc", "a\\", "a)", "\\u12", "\\xe3\\x81\\x82",
                              "[\\x80-\\xff]", "\\xg", "\\x{41"}) {
    INFO(pattern);
    CHECK_THROWS_AS(pcre_pattern(pattern), std::invalid_argument);
  }
}

TEST_CASE("the end of documents is named, configured, known by its name, or asked for") {
  const TemporaryFolder folder;
  Json file = small_file();
  const std::string path = folder / "tokenizer.json";
  write_file(path, file.dump());
  const std::string message = error_of<core::ConfigError>([&] { JsonTokenizer::open(path, ""); });
  INFO(message);
  CHECK(contains(message, "no token is known to end documents"));
  CHECK(contains(message, "Name one with --eod; its special tokens are '<end>'"));
  CHECK(JsonTokenizer::open(path, "<end>")->eod() == 3);
  CHECK(make_tokenizer(folder.path(), "b")->eod() == 1);
  CHECK(JsonTokenizer::open(path, "3")->eod() == 3);
  CHECK(JsonTokenizer::open(path, "2")->eod() == 2);
  CHECK(contains(error_of<core::ConfigError>([&] { JsonTokenizer::open(path, "4"); }),
                 "is to be '4' (--eod), which is no token of it, nor the id of one that is no number"));
  CHECK(contains(error_of<core::ConfigError>([&] { JsonTokenizer::open(path, "<fin>"); }), "is to be '<fin>' (--eod)"));
  write_file(folder / "tokenizer_config.json", R"({"eos_token": {"content": "<end>", "lstrip": false}})");
  CHECK(JsonTokenizer::open(path, "")->eod() == 3);
  CHECK(JsonTokenizer::open(path, "a")->eod() == 0);
  write_file(folder / "tokenizer_config.json", R"({"eos_token": "<fin>"})");
  CHECK(contains(error_of<core::ConfigError>([&] { JsonTokenizer::open(path, ""); }), "is to be '<fin>' (eos_token"));
  std::filesystem::remove(folder / "tokenizer_config.json");
  file["added_tokens"][0]["content"] = "</s>";
  write_file(path, file.dump());
  CHECK(JsonTokenizer::open(path, "")->eod() == 3);
  CHECK(contains(error_of<core::ConfigError>([] { make_tokenizer("bytes", "<end>"); }), "--eod is '<end>'"));
  // A token that is named needs no configuration.
  write_file(folder / "tokenizer_config.json", "{");
  CHECK(JsonTokenizer::open(path, "a")->eod() == 0);
}

TEST_CASE("a dataset keeps its tokenizer.json and its end of documents, and adds no template") {
  const TemporaryFolder folder;
  write_file(folder / "text.txt", "The quick rivers are reading tomorrow's water.\n");
  BuildOptions build;
  build.inputs = {folder / "text.txt"};
  build.out = folder / "set";
  build.tokenizer = test::tokenizer_file("bert");
  build.eod = "[MASK]";
  const BuildResult result = build_dataset(build);
  CHECK(result.train.meta.tokenizer == "tokenizer.json");
  CHECK(std::filesystem::exists(folder / "set.tokenizer.json"));
  const auto common = common_tokenizer({folder / "set"}, 100000);
  REQUIRE(common);
  const auto opened = open_tokenizer(*common);
  CHECK(opened->eod() == 4);
  std::vector<int32_t> expected = ids_of(*opened, "The quick rivers are reading tomorrow's water.\n");
  CHECK(expected.front() != opened->before_text().front());
  expected.push_back(4);
  const IndexedDataset dataset(folder / "set");
  std::vector<int32_t> stored(expected.size());
  REQUIRE(static_cast<size_t>(result.train.meta.tokens) == expected.size());
  dataset.read(0, 0, static_cast<int64_t>(expected.size()), opened->vocab_size(), stored.data());
  CHECK(stored == expected);
  CHECK(opened->decode(expected) == "the quick rivers are reading tomorrow ' s water.");
  write_file(folder / "set.tokenizer.json", small_file().dump());
  CHECK_THROWS_AS(open_tokenizer(*common), core::Error);
}

TEST_CASE("a cluster of more bytes than are looked at first is found whole") {
  std::string cluster = "a";
  for (const size_t marks : {2u, 31u, 33u, 500u}) {
    while (cluster.size() < 1 + 2 * marks) cluster += "\u0301";
    CHECK(runtime::data::tokenizer_json::grapheme_end(cluster, 0) == cluster.size());
    CHECK(runtime::data::tokenizer_json::grapheme_end(cluster + "\u00e9b", 0) == cluster.size());
  }
}

TEST_CASE("tokens know whether they begin a word or go on with one") {
  const auto part = [](const char* file, std::string_view text, size_t at) {
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(file), "");
    const auto ids = ids_of(*tokenizer, text);
    REQUIRE(ids.size() > at);
    return tokenizer->word_part(ids[at]);
  };
  CHECK(part("gpt2", "a the", 1) == WordPart::begins);
  CHECK(part("gpt2", "qqz", 1) == WordPart::continues);
  CHECK(part("gpt2", "\n", 0) == WordPart::between);
  CHECK(part("bert", "qqz", 0) == WordPart::begins);
  CHECK(part("bert", "qqz", 1) == WordPart::continues);
  CHECK(part("bert", "[MASK]", 0) == WordPart::between);
  CHECK(part("unigram", "a the", 1) == WordPart::begins);
  CHECK(part("llama2", "qqz", 2) == WordPart::continues);
}

}  // namespace zrt::data_tokenizer_json_refusal_test
