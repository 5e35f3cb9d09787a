// Errors of the JSON library in zrt's words.
#include "core/json_problem.h"

#include <nlohmann/json.hpp>

#include "catch.h"

namespace zrt::json_problem_test {

namespace {

std::string problem_of(const std::string& text) {
  try {
    const auto parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return core::json_problem(error.what());
  }
  return "";
}

}  // namespace

TEST_CASE("a text that is no JSON is said to stop at its place, without a word of the library") {
  CHECK(problem_of("{\n  \"a\": 1,\n  \"b\": nul }").starts_with("line 3, column 11 cannot be read, behind '"));
  CHECK(problem_of("{\"a\": [1, 2").ends_with("cannot be read: the text ends there"));
  CHECK(problem_of("").ends_with("cannot be read: the text ends there"));
  const std::string long_one = problem_of("{\"a\": \"" + std::string(100, 'x') + "\x01");
  CHECK(long_one.find("json.exception") == std::string::npos);
  CHECK(long_one.find("…") != std::string::npos);
  CHECK(long_one.size() < 120);
  CHECK(core::json_problem("type must be number") == "it cannot be read");
}

}  // namespace zrt::json_problem_test
