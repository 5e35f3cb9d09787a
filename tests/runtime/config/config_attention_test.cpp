// sparse_attention as a configuration: DeepSpeed's words become patterns of layers, and what they cannot be is refused.
#include "models/model.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_attention_test {

using namespace zrt::runtime;
using zrt::models::AttentionPattern;
using zrt::models::SparseLayers;

namespace {

SparseLayers layers(const std::string& section) {
  return parsed("\"sparse_attention\": " + section + ",").model.sparse;
}

std::string error(const std::string& section) {
  return parse_error("\"sparse_attention\": " + section + ",");
}

}  // namespace

TEST_CASE("without sparse_attention every layer is dense and causal") {
  const Config config = parsed("");
  CHECK(config.model.sparse.of(0) == AttentionPattern{});
  CHECK(layers(R"({"mode": "dense"})").of(1) == AttentionPattern{});
  CHECK(layers("{}").of(1) == AttentionPattern{});
}

TEST_CASE("the fixed pattern is DeepSpeed's, in the layers that are named") {
  const SparseLayers plain = layers(R"({"mode": "fixed"})");
  CHECK(plain.of(0) == AttentionPattern{AttentionPattern::Kind::fixed, true, false, 16, 4, 1, 1});
  CHECK(plain.of(1) == plain.of(0));
  const std::string section =
      R"({"mode": "fixed", "block": 8, "num_local_blocks": 8, "num_global_blocks": 2, "attention": "unidirectional",
          "num_different_global_patterns": 4, "different_layout_per_head": true, "layers": )";
  const AttentionPattern pattern{AttentionPattern::Kind::fixed, true, false, 8, 8, 2, 4};
  const SparseLayers even = layers(section + R"("even"})"), odd = layers(section + R"("odd"})");
  for (const int64_t layer : {0, 1, 2, 3}) {
    CHECK(even.of(layer) == (layer % 2 == 0 ? pattern : AttentionPattern{}));
    CHECK(odd.of(layer) == (layer % 2 == 1 ? pattern : AttentionPattern{}));
  }
}

TEST_CASE("sliding windows have the first blocks that are named, or none") {
  const auto sliding = [](int local, int global) {
    return AttentionPattern{AttentionPattern::Kind::sliding, true, false, 16, local, global, 1};
  };
  CHECK(layers(R"({"mode": "bslongformer"})").of(0) == sliding(3, 1));
  CHECK(layers(R"({"mode": "bslongformer", "global_block_indices": [0, 1], "num_sliding_window_blocks": 6})").of(0) ==
        sliding(6, 2));
  CHECK(layers(R"({"mode": "bslongformer", "global_block_end_indices": [4]})").of(0) == sliding(3, 4));
  CHECK(layers(R"({"mode": "bslongformer", "global_block_indices": []})").of(0) == sliding(3, 0));
  CHECK(layers(R"({"mode": "local_sliding_window", "num_sliding_window_blocks": 5})").of(0) == sliding(5, 0));
}

TEST_CASE("models that read in both directions have patterns in both") {
  const auto bert = [](const std::string& section) {
    return parsed("\"sparse_attention\": " + section + ",", {"model.preset=bert-tiny"}).model.sparse.of(0);
  };
  CHECK(bert("{}") == AttentionPattern{.causal = false});
  CHECK(bert(R"({"horizontal_global_attention": true})") ==
        AttentionPattern{AttentionPattern::Kind::fixed, false, true, 16, 4, 1, 1});
  CHECK(bert(R"({"mode": "bslongformer"})") ==
        AttentionPattern{AttentionPattern::Kind::sliding, false, true, 16, 3, 1, 1});
  CHECK(bert(R"({"mode": "local_sliding_window"})") ==
        AttentionPattern{AttentionPattern::Kind::sliding, false, false, 16, 3, 0, 1});
  CHECK(has(error_of([&] { bert(R"({"attention": "unidirectional"})"); }), "Set \"bidirectional\""));
}

TEST_CASE("patterns that cannot be are refused by the key that asks for them") {
  CHECK(has(error(R"({"attention": "bidirectional"})"), "Set \"unidirectional\""));
  CHECK(has(error(R"({"horizontal_global_attention": true})"), "rules out"));
  CHECK(has(error(R"({"num_local_blocks": 4, "num_global_blocks": 3})"), "does not divide"));
  CHECK(has(error(R"({"num_different_global_patterns": 4})"), "different_layout_per_head = true"));
  CHECK(has(error(R"({"num_different_global_patterns": 5, "different_layout_per_head": true})"), "legal are 1 to 4"));
  CHECK(has(error(R"({"mode": "bslongformer", "global_block_indices": [0, 2]})"), "must count up from 0"));
  CHECK(has(error(R"({"mode": "bslongformer", "global_block_end_indices": [1, 2]})"), "Try [1]"));
  CHECK(has(error(R"({"mode": "fixed", "num_sliding_window_blocks": 5})"), "no effect with sparse_attention.mode"));
  CHECK(has(error(R"({"mode": "local_sliding_window", "global_block_indices": [0, 1]})"), "no effect"));
  CHECK(has(error(R"({"mode": "dense", "layers": "even"})"), "no effect"));
  CHECK(has(error(R"({"mode": "variable"})"), "legal"));
  CHECK(has(error(R"({"local_window_blocks": [2]})"), "bigbird"));
  CHECK(has(error(R"({"layers": "some"})"), "legal"));
  CHECK(has(parse_error(R"("sparse_attention": {"block": 1},)", {"model.sequence=100000"}), "Try 13 or more"));
}

TEST_CASE("a resolved configuration has the pattern again, and a dense one stays dense") {
  const auto reloaded = [](const std::string& more) { return reconfigured(parsed(more), {}, 1).model.sparse.of(0); };
  CHECK(reloaded("") == AttentionPattern{});
  CHECK(reloaded(R"("sparse_attention": {"num_local_blocks": 2},)").local == 2);
}

TEST_CASE("FLOPs count the blocks that are kept") {
  const std::string sparse =
      R"("sparse_attention": {"num_local_blocks": 8, "num_different_global_patterns": 8, "different_layout_per_head": true},)";
  const Settings sets{"model.sequence=2048"};
  const models::Model dense = parsed("", sets).model.make(), kept = parsed(sparse, sets).model.make();
  const double attention = 6.0 * 2 * 64 * 2048;
  CHECK(dense.flops_per_token() - kept.flops_per_token() == Approx(attention * (1 - 1536.0 / 8256)));
  const models::Shape shape{1, 2048};
  const double all = dense.blocks[1]->attention_flops(shape, dense.blocks[1]->anatomy().all());
  CHECK(kept.blocks[1]->attention_flops(shape, kept.blocks[1]->anatomy().all()) == Approx(all * 1536 / 8256));
}

}  // namespace zrt::config_attention_test
