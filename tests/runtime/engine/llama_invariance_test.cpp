// The invariance contract on Llama.
#include "runtime/engine/model_invariance.h"

namespace zrt::llama_invariance_test {

namespace {

using namespace zrt;
using testing::EqualRuns;

// Every value of every factor; with ZRT_FULL_TESTS every combination.
std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16;
  if (testing::full_tests()) return testing::all_groups({0.0f});
  return {{bf16, 0.0f, 4, 4, 2, true},
          {f32, 0.0f, 4, 1, 3, false},
          {f32, 0.0f, 1, 1, 4, true},
          {bf16, 0.0f, 1, 1, 1, false}};
}

models::Model tiny(const EqualRuns& group) {
  models::LlamaConfig config;
  config.layers = 2, config.hidden = 48, config.heads = 4, config.kv_heads = 2, config.ffn = 80;
  config.sequence = 24, config.vocab = 61, config.tied = group.tied;
  config.head_dim = group.tied ? 16 : 0;  // more than hidden in all
  config.head_norms = group.tied, config.qkv_biases = !group.tied;
  return models::make_llama(config);
}

}  // namespace

TEST_CASE("Llama's weights after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  testing::check_invariance(groups(), tiny);
}

TEST_CASE("A serialized run of Llama holds exactly the live bytes the plan says, category by category") {
  testing::check_live_bytes(0, tiny);
}

}  // namespace zrt::llama_invariance_test
