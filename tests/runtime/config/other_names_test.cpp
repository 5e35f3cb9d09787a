// Names of other trainers: each leads to a key that zrt has, and messages say so.
#include "runtime/config/other_names.h"

#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/config/config.h"
#include "runtime/config/key_docs.h"

namespace zrt::other_names_test {

using namespace zrt::runtime;
using Catch::Matchers::Contains;

namespace {

std::string error_of(const std::string& inside) {
  try {
    parse_config("{" + inside + "}", "run.json", {}, 1);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every name of another trainer is no key of zrt's at its place, and leads to one that zrt reads") {
  std::set<std::string_view> seen;
  for (const configuration::OtherName& other : configuration::other_names()) {
    CAPTURE(other.name, other.key);
    CHECK(seen.insert(other.name).second);
    const std::vector<KeyDoc> docs = find_key_docs(other.key);
    CHECK_FALSE(docs.empty());
    const std::string_view key = other.key;
    const size_t dot = key.rfind('.');
    const std::string section = dot == key.npos ? "" : std::string(key.substr(0, dot + 1));
    CHECK(find_key_docs(section + std::string(other.name)).empty());
  }
}

TEST_CASE("an unknown key that another trainer has is answered with zrt's name for it") {
  CHECK_THAT(error_of(R"("model": {"num_layers": 3})"),
             Contains("run.json:1: unknown key 'model.num_layers' = 3. zrt calls it 'model.layers'."));
  CHECK_THAT(error_of(R"("model": {"hidden_size": 3})"), Contains("zrt calls it 'model.hidden'."));
  CHECK_THAT(error_of(R"("hidden-size": 3)"), Contains("zrt calls it 'model.hidden'."));
  CHECK_THAT(error_of(R"("per_device_train_batch_size": 3)"),
             Contains("zrt calls it 'train_micro_batch_size_per_gpu'."));
  CHECK_THAT(error_of(R"("adapters": {"lora_alpha": 3})"), Contains("zrt calls it 'adapters.alpha'."));
}

TEST_CASE("an optimizer of another trainer is answered with what does its work") {
  const auto answer = [](const std::string& type) { return error_of(R"("optimizer": {"type": ")" + type + "\"}"); };
  CHECK_THAT(answer("FusedAdam"), Contains("Adam and AdamW are fused on every device"));
  CHECK_THAT(answer("DeepSpeedCPUAdam"), Contains("memory.placement = \"host\""));
  CHECK_THAT(answer("AdamW8bit"), Contains("memory.moments = \"int8\"") && !Contains("placement"));
  CHECK_THAT(answer("PagedAdamW8bit"), Contains("memory.moments = \"int8\"") && Contains("memory.placement"));
  CHECK_THAT(answer("Lamb"), Contains("is not supported; legal: Adam") && !Contains("fused"));
  CHECK_THAT(answer("OneBitAdam"), !Contains("fused"));
}

TEST_CASE("an error of a key in its other spelling names that, too") {
  CHECK_THAT(
      error_of(R"("parallel": {"tensor_model_parallel_size": "a"})"),
      Contains(R"(parallel.tensor = "a" (run.json:1, as parallel.tensor_model_parallel_size) has the wrong type)"));
  CHECK_THAT(error_of(R"("parallel": {"tensor": "a"})"), Contains(R"(parallel.tensor = "a" (run.json:1) has)"));
}

TEST_CASE("names with control characters are shown escaped") {
  CHECK_THAT(error_of("\"model\": {\"x\\u0007y\": 3}"), Contains("'model.x\\x07y'"));
  CHECK_THAT(error_of("\"modèle\": 3"), Contains("'modèle'"));
}

}  // namespace zrt::other_names_test
