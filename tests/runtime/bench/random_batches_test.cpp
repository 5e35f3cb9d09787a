// The batches that benchmarks train on.
#include <algorithm>

#include "catch.h"
#include "models/masking.h"
#include "runtime/bench/bench.h"
#include "runtime/config/config.h"
#include "runtime/plan/setup.h"

namespace zrt::random_batches_test {

using namespace zrt;

TEST_CASE("random batches name as many tokens of a sample as its loss is divided by") {
  const auto [preset, more, order] = GENERATE(table<std::string, std::string, bool>(
      {{"gpt2-tiny", "", false}, {"bert-tiny", "", false}, {"bert-tiny", R"(, "sentence_order": true)", true}}));
  const runtime::Config config = runtime::parse_config(
      R"({"train_micro_batch_size_per_gpu": 3, "model": {"preset": ")" + preset + R"(", "sequence": 37)" + more + "}}",
      "test", {}, 1);
  const models::Model model = config.model.make();
  const runtime::Layout layout = runtime::compile_within_budget(config, model, {"step"}).front().layout;
  const uint32_t step = 5;
  std::vector<int32_t> tokens(3 * 37), targets(3 * 37, -7);
  runtime::random_batches(layout, step)(0, 1, {tokens.data(), targets.data()});
  CAPTURE(preset, order);
  for (size_t sample = 0; sample < 3; ++sample) {
    const auto begin = targets.begin() + static_cast<std::ptrdiff_t>(37 * sample);
    CHECK(std::count_if(begin, begin + 37, [](int32_t target) { return target >= 0; }) == model.targets(37));
    CHECK((*begin == models::in_order || *begin == models::swapped) == order);
  }
  CHECK(std::all_of(tokens.begin(), tokens.end(), [&](int32_t token) { return token >= 0 && token < model.vocab; }));
}

}  // namespace zrt::random_batches_test
