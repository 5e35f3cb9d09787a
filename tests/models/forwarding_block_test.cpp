// A block that does what another one does leaves out nothing that a block can say.
#include <fstream>
#include <regex>
#include <sstream>

#include "catch.h"

namespace zrt::forwarding_block_test {

namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(ZRT_SOURCE_DIR "/models/" + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

// A function that is left out would answer for a block of the usual kind, in silence: rows of ports once did.
TEST_CASE("a forwarding block hands on every function of a block that can be another's") {
  const std::string block = text_of("block.h"), forwarding = text_of("forwarding_block.h");
  const std::regex function(R"(virtual [^~(;]*?(\w+)\()");
  size_t found = 0;
  for (std::sregex_iterator at(block.begin(), block.end(), function), end; at != end; ++at, ++found) {
    const std::string name = (*at)[1];
    INFO(name);
    CHECK(forwarding.find("inner_->" + name + "(") != std::string::npos);
  }
  CHECK(found > 15);
}

}  // namespace zrt::forwarding_block_test
