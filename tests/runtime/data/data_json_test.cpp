// JSON lines as input: which text is read, and which lines are bad.
#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/json_field.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/gzip.h"
#include "tests/runtime/data/zstd.h"

namespace zrt::data_json_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;
using Texts = std::vector<std::string>;

namespace {

struct Lines {
  TemporaryFolder folder;
  BuildOptions options;
  BuildResult result;

  explicit Lines(const std::string& name = "a.jsonl") {
    options.inputs = {folder / name};
    options.out = folder / "x";
    options.force = true;
  }
  // The documents that a build of the input makes.
  Texts of(const std::string& bytes) {
    write_file(options.inputs[0], bytes);
    result = build_dataset(options);
    Texts texts;
    for (const auto& tokens : test::read_dataset(folder / "x", 257)) texts.push_back(ByteTokenizer().decode(tokens));
    return texts;
  }
  std::string refusal(const std::string& bytes) {
    return error_of<DataError>([&] { of(bytes); });
  }
};

std::string problem(const std::string& line, const std::string& field = "text") {
  std::string text;
  return JsonField(field).read(line, text);
}

}  // namespace

TEST_CASE("a field's text is that of the object itself, as written last", "[data]") {
  const auto text_of = [](const std::string& line, const std::string& field = "text") {
    std::string text = "old";
    CHECK(JsonField(field).read(line, text) == "");
    return text;
  };
  CHECK(text_of(R"({"text": "a"})") == "a");
  CHECK(text_of(
            R"(  {"id": 7, "meta": {"text": "no", "list": ["text", {"text": "no"}]}, "text" : "yes", "x": null}  )") ==
        "yes");
  CHECK(text_of(R"({"meta": ["text"], "text": "\u00e9\ud83d\ude00\n\t\"\\\/"})") == "é\U0001F600\n\t\"\\/");
  CHECK(text_of(R"({"text": "first", "text": "second"})") == "second");
  CHECK(text_of(R"({"text": "", "body": "b"})") == "");
  CHECK(text_of(R"({"text": "", "body": "b"})", "body") == "b");
  CHECK(text_of(R"({"a.b": "dotted", "a": {"b": "nested"}})", "a.b") == "dotted");
  CHECK(text_of("{\"text\": \"\xd0\xb4\"}") == "д");
}

TEST_CASE("what is wrong with a line is said in its own words", "[data]") {
  CHECK(problem("") ==
        "it is no JSON: column 1: unexpected end of input. A value that lies over several lines? `jq -c .` "
        "puts each on one");
  CHECK(contains(problem("{"), "it is no JSON: column 2: unexpected end of input"));
  CHECK(contains(problem("text"), "it is no JSON: column "));
  CHECK(contains(problem(R"({"text": "a"} {"text": "b"})"), "it is no JSON: column 15"));
  CHECK(contains(problem(R"({"text": "a)"), "it is no JSON: column "));
  CHECK(contains(problem(R"({"text": "\ud83d"})"), "surrogate"));
  CHECK(contains(problem(R"({"text": "\ude00"})"), "surrogate"));
  CHECK(contains(problem(R"({"text": "\ud83dx"})"), "surrogate"));
  CHECK(contains(problem(R"({"other": "\ud83d", "text": "a"})"), "surrogate"));
  CHECK(contains(problem("{\"text\": \"a\xe9\"}"), "UTF-8"));
  // The library would end there, and what follows would be lost.
  CHECK(problem(std::string("{\"text\": \"a\"}\0{}", 16)) == "it is no JSON: column 14: a zero byte");
  CHECK(!contains(problem("{\"text\": \"" + std::string(100000, 'x') + "\\q\"}"), "xxx"));  // no message of that length
  CHECK(problem("[1]") == "it is no object; a line holds one, such as {\"text\": \"…\"}");
  CHECK(problem("\"text\"") == "it is no object; a line holds one, such as {\"text\": \"…\"}");
  CHECK(problem("{}") == "it has no field 'text', nor any other");
  CHECK(problem(R"({"id": 1, "content": "c", "meta": {"text": "t"}})") ==
        "it has no field 'text'; --field names another: it has id, content, meta");
  for (const auto& [value, kind] : std::vector<std::pair<std::string, std::string>>{{"null", "null"},
                                                                                    {"true", "true or false"},
                                                                                    {"1", "a number"},
                                                                                    {"-1", "a number"},
                                                                                    {"1.5", "a number"},
                                                                                    {"{\"text\": \"a\"}", "an object"},
                                                                                    {"[\"a\"]", "a list"}})
    CHECK(problem("{\"text\": " + value + "}") == "its field 'text' is " + kind + "; it must be a text");
  CHECK(problem(R"({"text": 1, "text": "a"})") == "");
  CHECK(problem(R"({"text": "a", "text": 1})") == "its field 'text' is a number; it must be a text");
  CHECK(problem(std::string(100000, '[')) != "");  // deep, and no crash
}

TEST_CASE("each line of JSON lines is a document, plain and compressed", "[data]") {
  const std::string two =
      "{\"text\": \"one\\n\\ntwo\", \"id\": 1}\n\n \t\r\n{\"text\": \"\"}\n{\"text\": \" \\n\"}\n{\"text\": "
      "\"zwei\"}";
  const Texts expected{"one\n\ntwo", "zwei"};
  for (const char* name : {"a.jsonl", "a.ndjson", "a.json", "b.JSONL"}) {
    INFO(name);
    for (const std::string& end : {std::string(), std::string(".gz"), std::string(".zst")}) {
      const auto packed = [&](const std::string& text) {
        return end.empty() ? text : end == ".gz" ? test::gzip(text) : test::zstd(text);
      };
      Lines lines(name + end);
      CHECK(lines.of(packed(two)) == expected);
      CHECK(lines.of(packed("\xef\xbb\xbf" + two + "\r\n")) == expected);
      CHECK(lines.result.train.meta.bytes == 12);
    }
  }
  Lines lines;
  lines.options.field = "body";
  CHECK(lines.of("{\"text\": \"one\", \"body\": \"two\"}") == Texts{"two"});
  // Lines may be longer than the pieces in which a file is read, and lie across them.
  lines.options.field.reset();
  const std::string wide(3'000'000, 'w');
  CHECK(lines.of("{\"text\": \"" + wide + "\"}\n{\"text\": \"x\"}\n") == Texts{wide, "x"});
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string first((1u << 20) - 14 + shift, 'f');
    CHECK(lines.of("{\"text\": \"" + first + "\"}\n{\"text\": \"x\"}\n") == Texts{first, "x"});
  }
}

TEST_CASE("a bad line is named with its file and number, or skipped and counted", "[data]") {
  Lines lines;
  const std::string good = "{\"text\": \"good\"}\n", path = lines.options.inputs[0];
  CHECK(lines.refusal(good + "\n{\"text\": \"\\ud800\"}\n" + good).find(path + ": line 3: it is no JSON: column ") ==
        0);
  CHECK(contains(lines.refusal(good + "{\"body\": 1}"),
                 path + ": line 2: it has no field 'text'; --field names another"));
  CHECK(contains(lines.refusal(good + "{\"body\": 1}"), "--skip-bad leaves such lines out"));
  CHECK(!std::filesystem::exists(lines.folder / "x.idx"));
  CHECK(contains(lines.refusal("\n\n"), "the file holds no text"));

  lines.options.skip_bad = true;
  CHECK(lines.of(good + "oops\n" + good + "{\"text\": 1}\n\nnull\n") == Texts{"good", "good"});
  REQUIRE(lines.result.bad_lines.size() == 1);
  CHECK(lines.result.bad_lines[0].path == path);
  CHECK(lines.result.bad_lines[0].count == 3);
  CHECK(lines.result.bad_lines[0].first == 2);
  CHECK(contains(lines.result.bad_lines[0].reason, "it is no JSON: column 1"));
  CHECK(contains(lines.refusal("oops\n" + std::string("{}\n")),
                 path + ": none of its lines can be read; line 1, the first of 2: it is no JSON"));
  // Held-out text is counted in a second reading; the count is that of one.
  lines.options.validation = 0.5;
  lines.options.out = lines.folder / "parts";
  std::string many;
  for (int i = 0; i < 100; ++i) many += good + "bad\n";
  write_file(path, many);
  const BuildResult parts = build_dataset(lines.options);
  CHECK(parts.bad_lines.at(0).count == 100);
  CHECK(parts.train.meta.documents + parts.validation->meta.documents == 100);
  CHECK(parts.split_by_document);
}

TEST_CASE("what is no JSON lines in spite of its name is refused for what it is, also where bad lines are skipped") {
  using namespace std::string_literals;
  for (const bool skip : {false, true}) {
    Lines lines("a.json");
    lines.options.skip_bad = skip;
    const std::string path = lines.options.inputs[0];
    CHECK(contains(lines.refusal("[\n{\"text\": \"a\"},\n{\"text\": \"b\"}\n]\n"),
                   "here begins a list, and JSON is read by lines, an object on each. Convert it first: cat " + path +
                       " | jq -c \".[]\" > FILE.jsonl"));
    CHECK(contains(lines.refusal("PAR1\x15\x04\x15\x10\x15"s),
                   path + ": byte 0: it is a parquet file, not text. Convert"));
    CHECK(contains(lines.refusal("\xff\xfe{\0\"\0"s), "the byte order mark says UTF-16LE"));
    CHECK(contains(lines.refusal("{\0\"\0t\0e\0x\0t\0\"\0:\0\"\0a\0\"\0}\0\n\0"s), "say UTF-16LE"));
    CHECK(contains(lines.refusal(test::gzip("{}")), "it is gzip data; give it a name that ends in .gz"));
    CHECK(contains(lines.refusal(test::zstd("{}")), "it is zstd data; give it a name that ends in .zst"));
  }
  // A list that is whole is a bad line where lines follow it that are objects.
  Lines headed("a.json");
  const std::string list = "[\"text\", \"id\"]\n";
  CHECK(contains(headed.refusal(list + "{\"text\": \"a\"}\n"), "here begins a list"));
  headed.options.skip_bad = true;
  CHECK(headed.of(list + "{\"text\": \"a\"}\n") == Texts{"a"});
  CHECK((headed.result.bad_lines.at(0).first == 1 && headed.result.bad_lines[0].count == 1));
  CHECK(contains(headed.refusal("[{\"text\": \"a\"}]\n"), "here begins a list"));
  Lines pretty("a.json");
  CHECK(contains(
      pretty.refusal("{\n  \"text\": \"a\"\n}\n"),
      "line 1: it is no JSON: column 2: unexpected end of input. A value that lies over several lines? `jq -c .`"));
}

TEST_CASE("options that no input has a use for are refused", "[data]") {
  Lines lines("a.txt");
  const auto refused = [&](const std::string& bytes) { return error_of<ConfigError>([&] { lines.of(bytes); }); };
  lines.options.field = "body";
  CHECK(contains(refused("prose"), "field is 'body', but no input is one of JSON lines"));
  lines.options.field.reset();
  lines.options.skip_bad = true;
  CHECK(contains(refused("prose"), "bad lines are to be skipped, but no input"));
  Lines paragraphs;
  paragraphs.options.documents = Documents::paragraph;
  CHECK(contains(error_of<ConfigError>([&] { paragraphs.of("{\"text\": \"a\"}"); }),
                 "documents is 'paragraph', but all"));
  // The option is about a text that stands beside them.
  write_file(paragraphs.folder / "b.txt", "one\n\ntwo\n");
  paragraphs.options.inputs.push_back(paragraphs.folder / "b.txt");
  CHECK(paragraphs.of("{\"text\": \"a\\n\\nb\"}") == Texts{"a\n\nb", "one\n", "two\n"});
}

TEST_CASE("files of a folder are read by name, and others are told of with what converts them", "[data]") {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  write_file(folder / "in/b.jsonl.zst", test::zstd("{\"text\": \"b\"}"));
  write_file(folder / "in/a/c.ndjson", "{\"text\": \"c\"}");
  write_file(folder / "in/B.jsonl", "{\"text\": \"B\"}");
  write_file(folder / "in/z.txt.zst", test::zstd("z"));
  write_file(folder / "in/config.json", "{\"text\": \"no\"}");
  write_file(folder / "in/p.parquet", "PAR1\x15\x04");
  write_file(folder / "in/data.arrow", "\xff\xff\xff\xff\xa8\0\0\0"s);
  write_file(folder / "in/notes", "text");
  BuildOptions options;
  options.inputs = {folder / "in"}, options.out = folder / "x";
  const BuildResult result = build_dataset(options);
  Texts texts;
  for (const auto& tokens : test::read_dataset(folder / "x", 257)) texts.push_back(ByteTokenizer().decode(tokens));
  CHECK(texts == Texts{"B", "c", "b", "z"});
  std::string skipped;
  for (const SkippedInput& each : result.skipped) skipped += each.path + ": " + each.reason + "\n";
  CHECK(contains(skipped, "config.json: its name may be that of settings; it is read when it is named itself"));
  CHECK(contains(skipped, "notes: not .txt, .md, .text, .jsonl, .ndjson, or .gz or .zst of them"));
  CHECK(contains(skipped, "p.parquet: it is a parquet file. Convert it first: python3 -c 'import sys, pandas;"));
  CHECK(contains(skipped, (folder / "in/p.parquet") + " " + (folder / "in/p.jsonl")));
  CHECK(
      contains(skipped, "data.arrow: it is an Arrow stream. Convert it first: python3 -c 'import sys, pyarrow as pa;"));
  options.inputs = {folder / "in/config.json"}, options.force = true;
  CHECK(build_dataset(options).train.meta.documents == 1);

  std::filesystem::create_directory(folder / "only");
  write_file(folder / "only/p.parquet", "PAR1\x15\x04");
  options.inputs = {folder / "only"};
  CHECK(contains(error_of<DataError>([&] { build_dataset(options); }),
                 "no text was found; files of a folder must end in"));
  CHECK(contains(error_of<DataError>([&] { build_dataset(options); }), "p.parquet: it is a parquet file. Convert"));
}

}  // namespace zrt::data_json_test
