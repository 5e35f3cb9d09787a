// The rows of a head that have a target: picked, and their gradients put back, and the loss of a head that has few.
#include "models/common/counted_rows.h"

#include <algorithm>
#include <random>
#include <vector>

#include "catch.h"
#include "models/masking.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::counted_rows_test {

using namespace zrt;
using models::CountedRows;

namespace {

std::vector<int32_t> targets_with(int64_t rows, int64_t counted, std::mt19937& random) {
  std::vector<int32_t> targets(static_cast<size_t>(rows), models::not_counted);
  std::fill_n(targets.begin(), counted, 1);
  std::shuffle(targets.begin(), targets.end(), random);
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] > 0) targets[r] = static_cast<int32_t>(r);
  }
  return targets;
}

}  // namespace

TEST_CASE("rows with a target are picked in their order, in place too, and spread again with zeros between them") {
  std::mt19937 random(5);
  constexpr int64_t width = 3;
  for (const int64_t rows : {1, 2, 63, 64, 65, 511, 513, 650, 1300}) {
    for (const int64_t counted : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{65}, rows / 2, rows - 1, rows}) {
      if (counted > rows) continue;
      CAPTURE(rows, counted);
      const std::vector<int32_t> targets = targets_with(rows, counted, random);
      const CountedRows some(targets.data(), rows);
      CHECK(some.all() == (counted == rows));
      if (some.all()) continue;
      CHECK(some.rows() >= std::max<int64_t>(counted, 1));
      CHECK(some.rows() <= rows);
      CHECK((some.rows() % CountedRows::granule == 0 || some.rows() == rows));
      CHECK(some.rows() < counted + CountedRows::granule + (counted == 0 ? 1 : 0));
      std::vector<float> all(static_cast<size_t>(rows * width));
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i + 1);
      std::vector<float> expected, there = all;
      for (int64_t r = 0; r < rows; ++r) {
        if (targets[static_cast<size_t>(r)] < 0) continue;
        expected.insert(expected.end(), all.begin() + r * width, all.begin() + (r + 1) * width);
      }
      // The rows are picked in pieces, in place.
      for (int64_t begin = 0; begin < some.rows(); begin += 100) {
        const int64_t count = std::min<int64_t>(100, some.rows() - begin);
        some.pick(there.data(), width * sizeof(float), begin, count, there.data() + begin * width);
      }
      CHECK(std::equal(expected.begin(), expected.end(), there.begin()));
      CHECK(std::count_if(some.targets(), some.targets() + some.rows(), [](int32_t t) { return t >= 0; }) == counted);
      for (int64_t r = 0; r < counted; ++r) {
        CHECK(some.targets()[r] * width + 1 == static_cast<int64_t>(there[static_cast<size_t>(r * width)]));
      }
      if (counted == 0) continue;
      some.spread(there.data(), width * sizeof(float), rows);
      for (int64_t r = 0; r < rows; ++r) {
        const bool counts = targets[static_cast<size_t>(r)] >= 0;
        for (int64_t i = r * width; i < (r + 1) * width; ++i) {
          if (there[static_cast<size_t>(i)] != (counts ? all[static_cast<size_t>(i)] : 0)) FAIL("row " << r);
        }
      }
    }
  }
}

TEST_CASE("a head whose rows take several chunks has the loss and the gradients of those that have a target") {
  using namespace zrt::test;
  models::Gpt2Config config;
  config.layers = 1, config.hidden = 16, config.heads = 1, config.sequence = 650, config.vocab = 61;
  config.tied = false;
  const Tensors weights = recipe_weights(config);
  std::mt19937 random(6);
  const models::Model model = make_model(config);
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    const double rounding = type == core::DType::f32 ? 2e-6 : 3e-2;
    for (const int64_t counted : {0, 1, 64, 300, 513, 600, 649}) {
      CAPTURE(counted, core::dtype_name(type));
      Batch batch = recipe_batch(config, 1, 650, 0);
      const std::vector<int32_t> mask = targets_with(650, counted, random);
      for (size_t r = 0; r < mask.size(); ++r) {
        if (mask[r] < 0) batch.targets[r] = models::not_counted;
      }
      const float scale = 1.0f / 650;
      const ReferenceResult expected = reference(config, weights, batch, static_cast<double>(scale));
      BlockRunner runner(model, {.B = 1, .T = 650, .type = type, .grad_type = type});
      runner.load(weights);
      const double loss = runner.train(batch, {.loss_scale = scale});
      CHECK(loss == Approx(expected.loss_sum).epsilon(rounding));
      CHECK(runner.evaluate(batch) == Approx(expected.loss_sum).epsilon(rounding));
      if (counted > 0) {
        CHECK(distance(runner.grads().at("lm_head.weight"), expected.grads.at("lm_head.weight")) < rounding);
      }
      // A second microbatch adds to what is there.
      runner.train(batch, {.loss_scale = scale});
      std::vector<double> twice = expected.grads.at("lm_head.weight");
      for (double& value : twice) value *= 2;
      const std::vector<double> sum = runner.grads().at("lm_head.weight");
      if (counted > 0) CHECK(distance(sum, twice) < rounding);
      if (counted == 0) CHECK(std::all_of(sum.begin(), sum.end(), [](double value) { return value == 0; }));
    }
  }
}

}  // namespace zrt::counted_rows_test
