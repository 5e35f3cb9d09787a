#include <cstdint>
#include <filesystem>
#include <fstream>

#include "core/philox.h"
#include "runtime/config/json_reader.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_fuzz_test {

using namespace zrt::runtime;
using namespace zrt::runtime::configuration;

namespace {

const char* const seed_text = R"({ # seed
  "train_batch_size": 16, "gradient_accumulation_steps": 2, gradient_clipping: 0.5,
  "zero_optimization": {"stage": 3, "prefetch_bucket_size": "5_000", "overlap_comm": null, "offload_param": null,
                        "offload_optimizer": {"device": "none"}},
  "bfloat16": {"enabled": "yes"}, 'communication_data_type': "fp32", // types
  "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}},
  "parameter_groups": [{"match": ["*.bias", "h.*"], "weight_decay": 0.5, "lr_scale": 2},
                       {"match": "wte*", "optimizer": {"type": "Lion", "params": {"lr": 1e-4}}}],
  "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 10,}}
  "model": {"preset": "gpt2-tiny", "sequence": 16, "dropout": 0.1}, "aio": {"thread_count": 2},
  "data": {"train": [[1, "caf\u00e9", "fr"], [2, "\ud83d\ude00"]]}, /* ours */
  "run": {"steps": 9223372036854775807, "name": "x"}
})";

// Tokens that change structure or type when they land somewhere.
const char* const pieces[] = {"{",
                              "}",
                              "[",
                              "]",
                              ",",
                              ":",
                              "\"",
                              "'",
                              "\\",
                              "\\u",
                              "null",
                              "true",
                              "-1",
                              "0",
                              "1e999",
                              "1.5",
                              "\"auto\"",
                              "9223372036854775808",
                              "/*",
                              "//",
                              "#",
                              "\n",
                              "\xff",
                              "\xc3",
                              "{}",
                              "[]",
                              "\"enabled\"",
                              "\"stage\": 9,",
                              "\xEF\xBB\xBF",
                              "."};

uint32_t random(uint64_t& counter) {
  return zrt::core::random_word({20240607, 0, 0}, counter++);
}

std::string mutated(std::string text, uint64_t& counter) {
  const uint32_t changes = 1 + random(counter) % 4;
  for (uint32_t i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = random(counter) % text.size();
    const size_t length = random(counter) % 12;
    switch (random(counter) % 5) {
      case 0:
        text[at] = static_cast<char>(random(counter));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, pieces[random(counter) % std::size(pieces)]);
        break;
      case 3:
        text.insert(at, text.substr(random(counter) % text.size(), length * 4));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

// True where the text loads; any error but a typed one ends the test, and so does a ProgramError.
bool loads(const std::string& text, const std::vector<std::string>& sets) {
  try {
    const Config config = parse_config(text, "fuzz.json", sets, 2);
    resolved_json(config);
    return true;
  } catch (const zrt::core::ProgramError&) {
    throw;
  } catch (const zrt::core::Error& error) {
    REQUIRE(std::string(error.what()).size() > 10);
    REQUIRE(std::string(error.what()).size() < 2000);
    return false;
  }
}

}  // namespace

TEST_CASE("mutated files load or end in a typed error") {
  std::string good = seed_text;
  good.replace(good.find("9223372036854775807"), 19, "90");
  REQUIRE(loads(good, {}));
  uint64_t counter = 0;
  int loaded = 0;
  constexpr int rounds = 6000;
  for (int i = 0; i < rounds; ++i) loaded += loads(mutated(good, counter), {}) ? 1 : 0;
  CHECK(loaded > rounds / 100);
  CHECK(loaded < rounds);
}

TEST_CASE("mutated overrides load or end in a typed error") {
  uint64_t counter = 1u << 30;
  for (const char* set :
       {"zero_optimization.stage=3", "data.train=[[1, \"x\"]]", "run.name=a", "model={\"preset\": \"gpt2-10m\"}",
        R"(model={"preset": "llama-tiny", "kv_heads": 2, "rope_scaling": {"rope_type": "llama3", "factor": 8}})"}) {
    for (int i = 0; i < 500; ++i)
      loads(R"({"train_batch_size": 2, "model": {"preset": "gpt2-tiny"}})", {mutated(set, counter)});
  }
}

TEST_CASE("mutated resolved files load or end in a typed error") {
  const std::string text = resolved_json(parsed(R"("zero_optimization": {"stage": 2},)", {}, 2));
  const auto file = std::filesystem::path(ZRT_BINARY_DIR) / "config_fuzz_resolved.json";
  uint64_t counter = 1u << 31;
  for (int i = 0; i < 600; ++i) {
    std::ofstream(file) << mutated(text, counter);
    try {
      load_resolved(file);
    } catch (const zrt::core::ConfigError&) {
    }
  }
  std::filesystem::remove(file);
}

}  // namespace zrt::config_fuzz_test
