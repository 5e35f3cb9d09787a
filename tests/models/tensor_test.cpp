// Blocks that tensor-parallel ranks share, against the fp64 reference of the whole model.
#include <map>

#include "catch.h"
#include "tests/device.h"
#include "tests/models/golden.h"
#include "tests/models/tensor_runner.h"

namespace zrt::shared_blocks_test {

using namespace zrt::models;
using namespace zrt::test;

namespace {

constexpr int64_t B = 3, T = 13;

// Neither the vocabulary nor Llama's feed-forward width divides by 2 or 3.
Gpt2Config gpt2(int tensor, float dropout = 0, bool tied = true) {
  return {.layers = 2,
          .hidden = 48,
          .heads = 6,
          .sequence = 16,
          .vocab = 97,
          .dropout = dropout,
          .tied = tied,
          .degrees = {tensor}};
}
LlamaConfig llama(int tensor, bool head_norms) {
  return {.layers = 2,
          .hidden = 48,
          .heads = 12,
          .kv_heads = 6,
          .head_dim = 8,
          .ffn = 73,
          .sequence = 16,
          .vocab = 97,
          .rope_theta = 3000,
          .rms_norm_eps = 1e-4f,
          .head_norms = head_norms,
          .qkv_biases = !head_norms,
          .degrees = {tensor}};
}

LlamaConfig gemma(int tensor) {
  LlamaConfig config = llama(tensor, true);
  config.gemma = true, config.windows = {5, 2}, config.window_rope_theta = 100;
  config.query_scalar = 10, config.attention_cap = 2, config.logit_cap = 3;
  return config;
}

BertConfig bert(int tensor, bool pre_norm, float dropout = 0, bool tied = true) {
  BertConfig config{.layers = 2, .hidden = 48, .heads = 6, .sequence = 16, .vocab = 97};
  config.masking.cls = 94, config.masking.separator = 95, config.masking.mask = 96;
  config.masking.sentence_order = !tied || pre_norm;
  config.dropout = dropout, config.tied = tied, config.pre_norm = pre_norm, config.degrees.tensor = tensor;
  return config;
}

template <class Config>
Tensors initial_weights(const Config& config) {
  Tensors weights = recipe_weights(config);
  for (const TensorShape& t : tensors_of(config)) {
    if (t.shape.size() != 2) continue;
    for (double& value : weights.at(t.name)) {
      value *= 0.02 * std::sqrt(3.0) / 0.2;
      value = static_cast<double>(static_cast<float>(value));
    }
  }
  for (auto& [name, values] : weights) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  }
  return weights;
}

template <class Config>
Config with_rows_shared(Config config) {
  config.degrees.sequence_parallel = true;
  return config;
}

// Heads of each rank have patterns of their own; odd layers are dense.
template <class Config>
Config sparse(Config config) {
  config.sparse = {{models::AttentionPattern::Kind::fixed, true, false, 2, 3, 1, 3}, models::SparseLayers::Which::even};
  return config;
}

template <class Config>
void check(const Config& config, int64_t samples = B, int64_t tokens = T) {
  const Model model = make_model(config);
  const Tensors weights = initial_weights(config);
  const Batch batch = recipe_batch(config, samples, tokens, 0);
  TensorRunner runner(model, {.B = samples, .T = tokens}, config.degrees.tensor, config.degrees.sequence_parallel);
  runner.load(weights);
  const double loss = runner.train(batch);
  const ReferenceResult expected = reference(config, weights, batch);
  CHECK(std::abs(loss - expected.loss_sum) < 1e-6 * expected.loss_sum);
  const Tensors grads = runner.grads();
  for (const auto& [name, grad] : expected.grads) {
    INFO(name << " of " << model.type << ", " << config.degrees.tensor
              << " ranks that share rows: " << config.degrees.sequence_parallel);
    if (has_no_gradient(name)) continue;
    // Gradients of a head's norms are sums over all its rows, of which most cancel: 1.3e-6 of them on an H100.
    const bool on_gpu = zrt::test::test_device() == zrt::core::DeviceKind::cuda;
    double more = rounding_of(name);
    if constexpr (std::is_same_v<Config, LlamaConfig>) more = config.gemma ? 1.6 * 1.97 : 1;  // as in gradient_test.cpp
    CHECK(distance(grads.at(name), grad) < (on_gpu ? 2e-6 : 1e-6) * more);
  }
  CHECK(runner.most_of_padding() == 0);
}

}  // namespace

TEST_CASE("ranks that share blocks have the loss and the gradients of the fp64 reference, and none of padding") {
  for (const int ranks : {2, 3}) {
    check(gpt2(ranks)), check(gpt2(ranks, 0, false));
    check(llama(ranks, false)), check(llama(ranks, true));
    check(gemma(ranks)), check(sparse(gpt2(ranks))), check(sparse(llama(ranks, true)));
    check(bert(ranks, false)), check(bert(ranks, true)), check(bert(ranks, true, 0, false));
  }
}

TEST_CASE("ranks that share rows, too, have the loss and the gradients of the fp64 reference") {
  for (const int ranks : {2, 3, 6}) {
    check(with_rows_shared(gpt2(ranks))), check(with_rows_shared(gpt2(ranks, 0, false)));
    check(with_rows_shared(llama(ranks, false))), check(with_rows_shared(llama(ranks, true)));
    check(with_rows_shared(gemma(ranks)));
    check(with_rows_shared(bert(ranks, false))), check(with_rows_shared(bert(ranks, true)));
  }
}

TEST_CASE("ranks without a row of their own take part in what all share") {
  check(with_rows_shared(gpt2(6)), 1, 4), check(with_rows_shared(gpt2(6)), 2, 4);
  check(with_rows_shared(llama(6, true)), 1, 4);
  for (const bool pre_norm : {false, true}) check(with_rows_shared(bert(6, pre_norm)), 1, 4);
}

template <class Config>
void check_halves(const Config& config) {
  const Model model = make_model(config);
  const Tensors weights = initial_weights(config);
  const Batch batch = recipe_batch(config, B, T, 0);
  Tensors grads[2];
  for (const bool halves : {false, true}) {
    TensorRunner runner(model, {.B = B, .T = T}, config.degrees.tensor, config.degrees.sequence_parallel);
    runner.halves = halves;
    runner.load(weights);
    runner.train(batch), runner.train(batch);  // the second one adds
    grads[halves] = runner.grads();
  }
  CAPTURE(model.type, config.degrees.tensor, config.degrees.sequence_parallel);
  CHECK(grads[0] == grads[1]);
}

TEST_CASE("a backward whose weights come behind the exchange has the bits of one in one piece") {
  for (const int ranks : {2, 3}) {
    for (const float dropout : {0.0f, 0.3f}) {
      check_halves(gpt2(ranks, dropout)), check_halves(with_rows_shared(gpt2(ranks, dropout, false)));
      for (const bool pre_norm : {false, true}) {
        check_halves(bert(ranks, pre_norm, dropout));
        check_halves(with_rows_shared(bert(ranks, pre_norm, dropout, false)));
      }
    }
    for (const bool head_norms : {false, true}) {
      check_halves(llama(ranks, head_norms)), check_halves(with_rows_shared(llama(ranks, head_norms)));
      check_halves(sparse(llama(ranks, head_norms)));
      if (head_norms) check_halves(gemma(ranks)), check_halves(with_rows_shared(gemma(ranks)));
    }
  }
}

template <class Config>
void check_masks(const Config& whole) {
  const Tensors weights = initial_weights(whole);
  const Batch batch = recipe_batch(whole, B, T, 0);
  RunOptions options;
  options.seed = 5, options.step = 9, options.first_sample = 21;
  const Model model = make_model(whole);
  BlockRunner one(model, {.B = B, .T = T});
  one.load(weights);
  const double loss = one.train(batch, options);
  const Tensors expected = one.grads();
  for (const int ranks : {2, 3, 6}) {
    for (const bool rows : {false, true}) {
      Config config = whole;
      config.degrees.tensor = ranks;
      config.degrees.sequence_parallel = rows;
      const Model shared = make_model(config);
      TensorRunner runner(shared, {.B = B, .T = T}, ranks, rows);
      runner.load(weights);
      CHECK(runner.train(batch, options) == Approx(loss).epsilon(1e-6));
      const Tensors grads = runner.grads();
      for (const auto& [name, grad] : expected) {
        INFO(name << ", " << ranks << " ranks that share rows: " << rows);
        if (name.find("c_attn.bias") == std::string::npos && !has_no_gradient(name))
          CHECK(distance(grads.at(name), grad) < 2e-6 * rounding_of(name));
      }
    }
  }
}

TEST_CASE("masks of dropout do not depend on how many ranks share a block") {
  check_masks(gpt2(1, 0.3f));
  for (const bool pre_norm : {false, true}) check_masks(bert(1, pre_norm, 0.3f));
}

TEST_CASE("parts of ranks make up the whole tensor once, and what is beyond it is padding") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const int64_t sections : {1, 3}) {
      for (size_t dimension = 0; dimension < 3; ++dimension) {
        std::vector<int64_t> shape{6, 9, 12};
        const Param whole{"w", shape, Init::zeros, 0};
        const Param part = sliced(whole, dimension, ranks, sections);
        CHECK(part.whole_shape() == shape);
        std::vector<int> seen(static_cast<size_t>(whole.elements()));
        int64_t padding = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          // Pieces are taken in two runs that meet in mid row.
          const int64_t middle = part.elements() / 2 + 1;
          int64_t next = 0;
          for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, middle}, {middle, part.elements()}}) {
            for_each_piece(part, rank, begin, end, [&](const Piece& piece) {
              CHECK(piece.begin == next);
              next += piece.count;
              if (piece.whole < 0) padding += piece.count;
              for (int64_t i = 0; i < piece.count && piece.whole >= 0; ++i)
                ++seen[static_cast<size_t>(piece.whole + i)];
            });
          }
          CHECK(next == part.elements());
          // The same in rows.
          std::map<int64_t, int64_t> pieces, rows;
          for_each_piece(part, rank, 0, part.elements(), [&](const Piece& piece) {
            for (int64_t i = 0; i < piece.count && piece.whole >= 0; ++i) pieces[piece.begin + i] = piece.whole + i;
          });
          for (const PartRows& each : rows_of_part(part, rank)) {
            for (int64_t i = 0; i < each.rows * each.count; ++i) {
              const int64_t row = i / each.count, at = i % each.count;
              rows[each.begin + row * each.stride + at] = each.whole + row * each.whole_stride + at;
            }
          }
          CHECK(rows == pieces);
        }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
        CHECK(padding == part.elements() * ranks - whole.elements());
      }
    }
  }
}

}  // namespace zrt::shared_blocks_test
