#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/data_folder.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_batch_test {

using namespace zrt::runtime;
using nlohmann::json;

TEST_CASE("the batch triple resolves as DeepSpeed resolves it") {
  std::ifstream file(zrt::test::data_folder() + "/batch_triple.json");
  const json cases = json::parse(file)["cases"];
  REQUIRE(cases.size() == 56);
  int good = 0, unnamed = 0;
  for (const json& one : cases) {
    INFO(one.dump());
    json text = one["input"];
    text["model"] = {{"preset", "gpt2-tiny"}};
    const auto load = [&] { return parse_config(text.dump(), "ds.json", {}, one["dp_world"].get<int>()); };
    if (text.dump().find("auto") != std::string::npos) {
      // DeepSpeed fails on the literal; here it is a key left out.
      json without = text;
      for (json& value : without) value = value == "auto" ? json() : value;
      const auto outcome = [&](const json& keys) {
        try {
          const BatchConfig batch = parse_config(keys.dump(), "ds.json", {}, one["dp_world"].get<int>()).batch;
          return std::to_string(batch.train) + " " + std::to_string(batch.micro);
        } catch (const zrt::core::ConfigError&) {
          return std::string("refused");
        }
      };
      CHECK(outcome(text) == outcome(without));
      continue;
    }
    // DeepSpeed refuses what names no batch at all; here a microbatch is one sample then.
    const auto number = [&](const char* key) { return text.value(key, json()); };
    if (number("train_batch_size").is_null() && number("train_micro_batch_size_per_gpu").is_null()) {
      ++unnamed;
      CHECK(!one["expect"]["ok"].get<bool>());
      const BatchConfig batch = load().batch;
      const json steps = number("gradient_accumulation_steps");
      CHECK(batch.micro == 1);
      CHECK(batch.accumulation == (steps.is_null() ? json(1) : steps));
      CHECK(batch.train == batch.accumulation * one["dp_world"].get<int64_t>());
      continue;
    }
    if (!one["expect"]["ok"].get<bool>()) {
      const std::string error = error_of(load);
      CHECK(
          (error.find("batch_size") != std::string::npos || error.find("gradient_accumulation") != std::string::npos));
      continue;
    }
    ++good;
    const Config config = load();
    CHECK(one["expect"]["train_batch_size"] == config.batch.train);
    CHECK(one["expect"]["train_micro_batch_size_per_gpu"] == config.batch.micro);
    CHECK(one["expect"]["gradient_accumulation_steps"] == config.batch.accumulation);
  }
  CHECK(good == 23);
  CHECK(unnamed == 3);
}

TEST_CASE("a contradicting triple is refused with the four numbers and the nearest batches") {
  const std::string error = error_of([] { resolve_batch(33, std::nullopt, 2, 2); });
  CHECK(has(error, "train_batch_size = 33"));
  CHECK(has(error, "train_micro_batch_size_per_gpu = not given"));
  CHECK(has(error, "gradient_accumulation_steps = 2,"));
  CHECK(has(error, "2 data-parallel ranks"));
  CHECK(has(error,
            "a multiple of gradient_accumulation_steps x data-parallel ranks, here 4. The nearest are 32 and 36;"));
  CHECK(has(error_of([] { resolve_batch(16, 4, std::nullopt, 7); }), "here 28. The smallest one is 28;"));
  CHECK(has(error_of([] { resolve_batch(100, 4, std::nullopt, 7); }), "The nearest are 84 and 112;"));
  CHECK(has(error_of([] { resolve_batch(10, std::nullopt, std::nullopt, 4); }),
            "a multiple of data-parallel ranks, here 4. The nearest are 8 and 12;"));
  CHECK(has(error_of([] { resolve_batch(33, 4, 2, 4); }), "4 x 2 x 4 = 32"));
}

TEST_CASE("a triple never overflows or divides by zero") {
  CHECK_THROWS_AS(resolve_batch(std::nullopt, INT64_MAX, 2, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(8, 0, std::nullopt, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(8, std::nullopt, 0, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(INT64_MIN, -1, std::nullopt, 2), zrt::core::ConfigError);
  CHECK_THROWS_AS(resolve_batch(1, 2, std::nullopt, 1), zrt::core::ConfigError);
}

TEST_CASE("a configuration that names no batch has microbatches of one sample, and a warning") {
  struct Unnamed {
    const char* keys;
    int64_t accumulation;
  };
  for (const auto& [keys, accumulation] : std::vector<Unnamed>{
           {"", 1},
           {R"("gradient_accumulation_steps": 6,)", 6},
           {R"("train_batch_size": null, "gradient_accumulation_steps": null,)", 1},
           {R"("train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",)", 1},
           {R"("train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",)", 1}}) {
    INFO(keys);
    const Config config = parse_config(with(keys), "ds.json", {}, 2);
    CHECK(config.batch.micro == 1);
    CHECK(config.batch.accumulation == accumulation);
    CHECK(config.batch.train == 2 * accumulation);
    CHECK(warned(config, "no batch size is given: train_micro_batch_size_per_gpu = 1 is used, so that a step has " +
                             std::to_string(2 * accumulation) + " samples"));
    CHECK(in_force(config, "train_batch_size") == 2 * accumulation);
  }
  CHECK(!warned(parsed(R"("train_batch_size": 4,)"), "no batch size"));
  CHECK(!warned(parsed(R"("train_micro_batch_size_per_gpu": 4,)"), "no batch size"));
}

TEST_CASE("auto in the batch triple counts as left out") {
  CHECK(warned(parse_config(with("\n\"train_batch_size\": \"auto\","), "ds.json", {}, 1),
               "Seen: train_batch_size = \"auto\" (ds.json:2), which counts as left out"));
  const Config config = parsed(
      R"("train_batch_size": 12, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 3,)", {}, 2);
  CHECK(config.batch.micro == 2);
  CHECK(warned(config, "train_micro_batch_size_per_gpu = 2 (line 1)"));
}

}  // namespace zrt::config_batch_test
