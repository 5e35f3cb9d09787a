#include "core/printable.h"

#include <string>

#include "catch.h"

namespace zrt::core::printable_test {
namespace {

TEST_CASE("text without control characters is printed as it is") {
  for (const char* text : {"", "corpus/train.bin", "a b\\c 'd'", "\u00e9\u4e2d\U0001F600", "\u00a0"}) {
    CHECK(printable(text) == text);
    CHECK(printable_lines(text) == text);
  }
}

TEST_CASE("control characters and bytes that are not UTF-8 are printed as escapes") {
  CHECK(printable("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m");
  CHECK(printable("a\nb\tc\rd") == "a\\nb\\tc\\rd");
  CHECK(printable(std::string("\0\x07\x08\x7f", 4)) == "\\x00\\x07\\x08\\x7f");
  CHECK(printable("\u0080\u009b2J\u009f") == "\\xc2\\x80\\xc2\\x9b2J\\xc2\\x9f");  // the C1 set
  CHECK(printable("\x9b"
                  "2J\xe2\x82 \xff") == "\\x9b2J\\xe2\\x82 \\xff");
}

TEST_CASE("a text of several lines keeps its newlines and tabs and nothing else") {
  CHECK(printable_lines("a\n\tb\r\x1b[2J\n") == "a\n\tb\\r\\x1b[2J\n");
  CHECK(printable_lines("\xc2\n") == "\\xc2\n");
}

TEST_CASE("no escape survives, whatever two bytes come together") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const char both[] = {static_cast<char>(first), static_cast<char>(second)};
      const std::string shown = printable({both, 2});
      REQUIRE(shown == printable(shown));
      for (const char byte : shown) REQUIRE((static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f));
    }
  }
}

}  // namespace
TEST_CASE("a word that means something to a shell stands in quotes") {
  CHECK(in_shell("parallel.tensor=4") == "parallel.tensor=4");
  CHECK(in_shell("runs/a b.json") == "'runs/a b.json'");
  CHECK(in_shell("memory.recompute=[0,1]") == "'memory.recompute=[0,1]'");
  CHECK(in_shell("it's") == "'it'\\''s'");
  CHECK(in_shell("") == "''");
}

}  // namespace zrt::core::printable_test
