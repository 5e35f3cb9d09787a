// `zrt config`, and docs/config.md, which it writes.
#include "program.h"

namespace zrt::config_test {

using namespace zrt::testing;

TEST_CASE("docs/config.md is what the program prints") {
  std::ifstream file(ZRT_SOURCE_DIR "/docs/config.md");
  std::stringstream page;
  page << file.rdbuf();
  const Result printed = run_zrt("config --markdown");
  CHECK(printed.code == 0);
  INFO("write it anew: zrt config --markdown > docs/config.md");
  CHECK(page.str() == printed.text);
}

TEST_CASE("zrt config prints a key, a section and all sections") {
  const auto shows = [](const std::string& arguments, const std::vector<std::string>& parts) {
    const Result result = run_zrt("config " + arguments);
    INFO(result.text);
    CHECK(result.code == 0);
    for (const std::string& part : parts) {
      INFO(part);
      CHECK(result.text.find(part) != std::string::npos);
    }
  };
  shows("run.timeout_seconds", {"an integer from 1 to 1000000", "120", "implemented", "memory and time", "waits"});
  shows("optimizer.params.momentum", {"optimizer.type SGD"});
  shows("bf16.check_grad_overflow", {"refused", "non-finite"});
  shows("memory", {"memory.placement", "memory.moments"});
  shows("", {"zero_optimization.offload_param", "train_batch_size"});
  const Result json = run_zrt("config memory.moments --json");
  INFO(json.text);
  const nlohmann::json keys = nlohmann::json::parse(json.text);
  REQUIRE(keys.size() == 1);
  CHECK(keys[0]["default"] == "fp32");
  CHECK(keys[0]["values"] == R"("fp32", "bf16" or "int8")");
}

TEST_CASE("zrt config exits with 2 for a key that is none and names the nearest") {
  const Result result = run_zrt("config memory.momets");
  INFO(result.text);
  CHECK(result.code == 2);
  CHECK(result.text.find("memory.moments") != std::string::npos);
}

}  // namespace zrt::config_test
