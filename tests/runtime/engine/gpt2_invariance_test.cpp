// The invariance contract on GPT-2.
#include "runtime/engine/model_invariance.h"

namespace zrt::gpt2_invariance_test {

namespace {

using namespace zrt;
using testing::EqualRuns;
using testing::Setting;

// Every pair of values of every two factors; with ZRT_FULL_TESTS every combination.
std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16, f16 = core::DType::f16;
  if (testing::full_tests()) return testing::all_groups({0.0f, 0.1f});
  return {{f32, 0.0f, 1, 1, 2, true},  {bf16, 0.1f, 4, 4, 2, true},  {f32, 0.1f, 4, 1, 3, false},
          {bf16, 0.0f, 4, 1, 4, true}, {f32, 0.1f, 4, 4, 4, true},   {bf16, 0.1f, 1, 1, 3, true},
          {f32, 0.0f, 4, 4, 1, false}, {bf16, 0.1f, 4, 1, 1, true},  {bf16, 0.0f, 4, 4, 3, false},
          {f32, 0.1f, 1, 1, 1, false}, {bf16, 0.1f, 1, 1, 4, false}, {f32, 0.0f, 4, 1, 2, false},
          {f16, 0.1f, 2, 2, 2, true},  {f16, 0.0f, 2, 1, 3, false}};
}

models::Model tiny(const EqualRuns& group) {
  return models::make_gpt2({2, 48, 2, 24, 61, group.dropout, group.tied});
}

}  // namespace

TEST_CASE("GPT-2's weights after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  testing::check_invariance(groups(), tiny);
}

TEST_CASE("The same run with the same seed gives the same bits and another seed gives others") {
  const models::Model model = tiny({core::DType::f32, 0.1f, 1, 1, 2, true});
  Setting s;
  s.ranks = 2;
  s.stage = 3;
  const std::string first = testing::run(model, s).state;
  CHECK(testing::run(model, s).state == first);
  s.seed = 8;
  CHECK(testing::run(model, s).state != first);
}

TEST_CASE("A serialized run of GPT-2 holds exactly the live bytes the plan says, category by category") {
  testing::check_live_bytes(0.1f, tiny);
}

}  // namespace zrt::gpt2_invariance_test
