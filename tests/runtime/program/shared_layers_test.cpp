// Layers that share parameters: what they are called, and what a model of them is.
#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "models/sharing.h"
#include "tests/runtime/small_models.h"

namespace zrt::shared_layers_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using models::Sharing;

TEST_CASE("a parameter belongs to the layer that its name has as a number") {
  CHECK(models::layer_of("h.3.ln_1.weight") == 3);
  CHECK(models::layer_of("model.layers.12.self_attn.q_proj.weight") == 12);
  CHECK(models::layer_of("wte.weight") == -1);
  CHECK(models::layer_of("h.3a.weight") == -1);
  CHECK(models::layer_of("") == -1);
  CHECK(models::with_layer("model.layers.12.mlp.weight", 3) == "model.layers.3.mlp.weight");
  CHECK(models::with_layer("ln_f.bias", 3) == "ln_f.bias");
}

TEST_CASE("layers of a group use the parameters of its first one, but for those that stay private") {
  const Sharing sharing{{2, 3}, {"*ln_*"}};
  CHECK(models::shared_name(sharing, "h.1.attn.c_attn.weight") == "h.0.attn.c_attn.weight");
  CHECK(models::shared_name(sharing, "h.4.attn.c_attn.weight") == "h.2.attn.c_attn.weight");
  CHECK(models::shared_name(sharing, "h.4.ln_1.weight") == "h.4.ln_1.weight");
  CHECK(models::shared_name(sharing, "h.5.attn.c_attn.weight") == "h.5.attn.c_attn.weight");
  CHECK(models::shared_name(sharing, "wte.weight") == "wte.weight");
  CHECK(models::sharers(sharing, "h.3.mlp.c_fc.weight") == 3);
  CHECK(models::sharers(sharing, "h.3.ln_2.bias") == 1);
  CHECK(models::sharers(sharing, "ln_f.bias") == 1);
}

TEST_CASE("a model of shared layers has the parameters of one of them, and the random numbers and FLOPs of all") {
  for (const ModelType type : model_types) {
    const models::Model whole = make_small(type, {.layers = 4}), shared = models::share(whole, {{4}, {}});
    const auto layer = [&](const models::Model& model) {
      int64_t elements = 0;
      for (const auto& ref : model.canonical_params()) {
        const models::Param& param = model.blocks[ref.block]->params()[ref.index];
        if (models::layer_of(param.name) >= 0) elements += param.whole_elements();
      }
      return elements;
    };
    CHECK(layer(whole) == 4 * layer(shared));
    CHECK(whole.parameters() - shared.parameters() == 3 * layer(shared));
    CHECK(whole.flops_per_token() == shared.flops_per_token());
    CHECK(shared.shares_layers);
    const auto numbers = whole.canonical_numbers();
    for (const auto& ref : shared.canonical_params()) {
      const models::Param& param = shared.blocks[ref.block]->params()[ref.index];
      CHECK(shared.number(param) == numbers.at(param.name));
    }
  }
}

TEST_CASE("groups that do not fit the layers are refused") {
  const models::Model model = make_small(ModelType::gpt2, {.layers = 3});
  CHECK_THROWS_WITH(models::share(model, {{2}, {}}), Contains("2 layers in all (2), but the model has 3"));
  models::Model other = make_small(ModelType::gpt2, {.layers = 3, .hidden = 96});
  other.blocks[1] = model.blocks[1];
  CHECK_THROWS_WITH(models::share(other, {{3}, {}}), Contains("h.1") && Contains("differs in shape"));
}

}  // namespace zrt::shared_layers_test
