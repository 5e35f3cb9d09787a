#include <filesystem>
#include <fstream>

#include "core/keys/text.h"
#include "runtime/config/json_reader.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_reader_test {

using namespace zrt::runtime;
using namespace zrt::runtime::configuration;
using nlohmann::json;

namespace {

json read(const std::string& text) {
  return parse_config_text(text, "c.json").root;
}

std::string read_error(const std::string& text) {
  return error_of([&] { read(text); });
}

}  // namespace

TEST_CASE("the reader accepts JSON") {
  CHECK(read(R"({"a": [1, -2.5, 5e8, true, false, null, "x\n\u00e9\ud83d\ude00"], "b": {}})") ==
        json({{"a", {1, -2.5, 5e8, true, false, nullptr, "x\n\u00e9\U0001F600"}}, {"b", json::object()}}));
  CHECK(read("9223372036854775807") == INT64_MAX);
  CHECK(read("-9223372036854775808") == INT64_MIN);
  CHECK(read("5").is_number_integer());
  CHECK(read("5e8").is_number_float());
}

TEST_CASE("the reader accepts comments, trailing commas, bare keys and line ends instead of commas") {
  const json value =
      read("\xEF\xBB\xBF# first\r\n{ a: 1 // one\n  'b': [1, 2,], /* two\n lines */ c-d: {\"x\": 'it'\n}\n}");
  CHECK(value == json({{"a", 1}, {"b", {1, 2}}, {"c-d", {{"x", "it"}}}}));
}

TEST_CASE("a malformed file is refused with its place and what was expected") {
  CHECK(has(read_error("{\"a\": 1 \"b\": 2}"), "c.json:1:9: expected ',' or '}'"));
  CHECK(has(read_error("{\n \"a\" 1}"), "c.json:2:6: expected ':' after the key 'a', found '1'"));
  CHECK(has(read_error("{\"a\": cpu}"), "c.json:1:7: expected a value"));
  CHECK(has(read_error("{\"a\": cpu}"), "found 'cpu'"));
  CHECK(has(read_error("{\"a\": }"), "found '}'"));
  CHECK(has(read_error("{\"a\": [1, 2"), "the text ends here"));
  CHECK(has(read_error(""), "the text ends here"));
  CHECK(has(read_error("{} x"), "expected the end of the text, found 'x'"));
  CHECK(has(read_error("{,}"), "expected a key"));
  CHECK(has(read_error("[1,,2]"), "expected a value"));
  CHECK(has(read_error("{\"a\": \"x"), "must end with \""));
  CHECK(has(read_error("{\"a\": \"x\ny\"}"), "must end with \""));
  CHECK(has(read_error("/* never"), "never closed"));
  CHECK(has(read_error(R"("\q")"), "after the backslash"));
  CHECK(has(read_error(R"("\u12")"), "four hexadecimal digits"));
  CHECK(has(read_error(R"("\ud800x")"), "second half"));
  CHECK(has(read_error(R"("\ude00")"), "lone halves"));
  CHECK(has(read_error("\"\xff\""), "not valid UTF-8"));
}

TEST_CASE("numbers that are none, or do not fit, are refused") {
  for (const char* text : {"01", "1.", "-", "1e", "+1", ".5", "0x10", "1_000", "NaN", "Infinity", "-Infinity"}) {
    INFO(text);
    CHECK_THROWS_AS(read(text), zrt::core::ConfigError);
  }
  CHECK(has(read_error("9223372036854775808"), "does not fit 64 bits"));
  CHECK(has(read_error("1e400"), "does not fit a double"));
}

TEST_CASE("a key given twice is refused with both lines") {
  const std::string error = read_error("{\"zero\": {\n \"stage\": 1,\n \"stage\": 2}}");
  CHECK(has(error, "c.json:3:2"));
  CHECK(has(error, "'zero.stage' appears twice (first in line 2)"));
  CHECK(read(R"({"a": {"x": 1}, "b": {"x": 2}})").size() == 2);
}

TEST_CASE("depth, key length and size are bounded") {
  const std::string deep(max_config_depth, '['), closed(max_config_depth, ']');
  CHECK_NOTHROW(read(deep + closed));
  CHECK(has(read_error(deep + "[]" + closed), "nested deeper than 64"));
  CHECK(has(read_error(std::string(1 << 20, '[')), "nested deeper than 64"));
  CHECK(has(read_error("{\"" + std::string(300, 'k') + "\": 1}"), "longer than 256 bytes"));
  const auto file = std::filesystem::path(ZRT_BINARY_DIR) / "config_reader_large.json";
  std::ofstream(file) << std::string(max_config_bytes + 1, ' ');
  CHECK(has(error_of([&] { read_config_file(file); }), "larger than 16777216 bytes"));
  std::filesystem::remove(file);
}

TEST_CASE("a file that cannot be read is named") {
  CHECK(has(error_of([] { load_config("/nowhere/ds.json", {}, 1); }), "/nowhere/ds.json"));
  CHECK(has(error_of([] { load_config("/", {}, 1); }), "is a directory"));
}

TEST_CASE("keys remember their lines") {
  const Document document = parse_config_text("{\"a\": 1,\n\"b\": {\n\n\"c\": 2}}", "c.json");
  CHECK(document.lines.at("a") == 1);
  CHECK(document.lines.at("b") == 2);
  CHECK(document.lines.at("b.c") == 4);
}

TEST_CASE("the nearest word is found, and none when nothing is close") {
  CHECK(nearest("stge", {"stage", "steps"}) == "stage");
  CHECK(nearest("reduce_bucket_sizes", {"reduce_bucket_size", "reduce_scatter"}) == "reduce_bucket_size");
  CHECK(nearest("x", {"stage", "steps"}).empty());
  CHECK(valid_utf8("\u00e9\u20ac\U0001F600"));
  for (const char* bad : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) CHECK(!valid_utf8(bad));
}

}  // namespace zrt::config_reader_test
