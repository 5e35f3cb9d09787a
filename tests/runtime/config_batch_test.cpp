#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/data_folder.h"
#include "tests/runtime/config_helpers.h"

namespace zrt::config_batch_test {

using namespace zrt::runtime;
using nlohmann::json;

TEST_CASE("the batch triple resolves as DeepSpeed resolves it") {
  std::ifstream file(zrt::test::data_folder() + "/batch_triple.json");
  const json cases = json::parse(file)["cases"];
  REQUIRE(cases.size() == 56);
  int good = 0;
  for (const json& one : cases) {
    INFO(one.dump());
    json text = one["input"];
    text["model"] = {{"preset", "gpt2-tiny"}};
    const auto load = [&] { return parse_config(text.dump(), "ds.json", {}, one["dp_world"].get<int>()); };
    if (!one["expect"]["ok"].get<bool>()) {
      const std::string error = error_of(load);
      CHECK((error.find("train_batch_size") != std::string::npos || error.find("never filled") != std::string::npos));
      continue;
    }
    ++good;
    const Config config = load();
    CHECK(one["expect"]["train_batch_size"] == config.batch.train);
    CHECK(one["expect"]["train_micro_batch_size_per_gpu"] == config.batch.micro);
    CHECK(one["expect"]["gradient_accumulation_steps"] == config.batch.accumulation);
  }
  CHECK(good == 23);
}

TEST_CASE("a contradicting triple is refused with the four numbers and which were inferred") {
  const std::string error = error_of([] { resolve_batch(33, std::nullopt, 2, 2); });
  CHECK(has(error, "train_batch_size = 33"));
  CHECK(has(error, "train_micro_batch_size_per_gpu = 8 (inferred)"));
  CHECK(has(error, "gradient_accumulation_steps = 2,"));
  CHECK(has(error, "2 data-parallel ranks"));
  CHECK(has(error, "8 x 2 x 2 = 32"));
}

TEST_CASE("a triple never overflows or divides by zero") {
  CHECK_THROWS_AS(resolve_batch(std::nullopt, INT64_MAX, 2, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(8, 0, std::nullopt, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(8, std::nullopt, 0, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(INT64_MIN, -1, std::nullopt, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(1, 2, std::nullopt, 1), zrt::core::ConfigError);
}

TEST_CASE("auto in the batch triple is an error that says it was never filled") {
  const std::string error = parse_error(R"("train_batch_size": "auto",)");
  CHECK(has(error, "train_batch_size = \"auto\" (ds.json:1)"));
  CHECK(has(error, "never filled"));
}

}  // namespace zrt::config_batch_test
