// Facts of the blocks that the comparison with the fp64 reference does not cover: dropout, memory, chunks of the head,
// refusals, counts.
#include "catch.h"
#include "core/parallel.h"
#include "models/model.h"
#include "tests/device.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"
#include "tests/models/kernel_data.h"

namespace zrt::blocks_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;
using Catch::Matchers::Contains;

namespace {

Gpt2Config small(float dropout = 0, bool tied = true) {
  return {.layers = 2, .hidden = 32, .heads = 2, .sequence = 16, .vocab = 97, .dropout = dropout, .tied = tied};
}

uint64_t backward_workspace(const Block& block, const Shape& shape) {
  return block.backward_workspace_bytes(shape, all_parts, Half::both);
}

// One block with buffers of exactly the declared sizes (and a margin that must stay untouched).
struct Bench {
  const Block& block;
  Call call;
  KernelBuffer input, output, d_output, d_input, saved, workspace;
  std::vector<KernelBuffer> weights, grads;
  std::vector<const void*> weight_pointers;
  std::vector<void*> grad_pointers;
  std::vector<uint8_t> accumulate;
  Visible<int32_t> tokens;
  Visible<double> loss = Visible<double>(1);
  uint64_t saved_bytes = 0, workspace_bytes = 0;
  std::vector<std::byte*> places;

  static int64_t words(uint64_t bytes) { return static_cast<int64_t>(bytes / 2) + 32; }

  Bench(const Block& b, const Shape& shape, int64_t C, int64_t V, bool backward)
      : block(b),
        input(KernelBuffer::random(shape.type, shape.rows() * C)),
        output(DType::f32, shape.rows() * std::max(C, V)),
        d_output(KernelBuffer::random(shape.type, shape.rows() * C)),
        d_input(shape.type, shape.rows() * C),
        saved(DType::bf16, words(shape.mode == Mode::train ? lay_out_saved(b, shape, all_parts) : 0)),
        workspace(DType::bf16, words(backward ? backward_workspace(b, shape) : b.forward_workspace_bytes(shape))) {
    saved_bytes = shape.mode == Mode::train ? lay_out_saved(b, shape, all_parts) : 0;
    workspace_bytes = backward ? backward_workspace(b, shape) : b.forward_workspace_bytes(shape);
    for (const Param& param : b.params()) {
      weights.push_back(KernelBuffer::random(shape.type, param.elements(), 0.3));
      grads.push_back(KernelBuffer(shape.grad_type, param.elements()));
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      weight_pointers.push_back(weights[i].data()), grad_pointers.push_back(grads[i].data()), accumulate.push_back(0);
    }
    for (int64_t i = 0; i < shape.rows(); ++i) tokens.push_back(static_cast<int32_t>(i * 31 % V));
    call.shape = shape;
    call.tokens = call.targets = tokens.data();
    call.input = input.data(), call.output = output.data();
    call.d_output = d_output.data(), call.d_input = d_input.data();
    call.workspace = static_cast<std::byte*>(workspace.data());
    if (shape.mode == Mode::train) keep_in(saved, all_parts);
    call.weights = weight_pointers, call.grads = grad_pointers, call.accumulate = accumulate;
    call.loss = loss.data();
    call.loss_scale = 0.01f;
  }

  // Lets what these parts keep lie in `buffer` from now on.
  void keep_in(KernelBuffer& buffer, Parts parts, Parts without = {}) {
    places.resize(block.anatomy().parts.size());
    lay_out_saved(block, call.shape, parts, without, static_cast<std::byte*>(buffer.data()), places);
    call.saved = places;
  }
};

// One past the highest byte that is not poison any more.
uint64_t touched(const KernelBuffer& buffer) {
  const auto& bytes = buffer.host();
  uint64_t end = bytes.size();
  while (end > 0 && bytes[end - 1] == std::byte{0xFB}) --end;
  return end;
}

// Random results end in the poison byte once in a while, so the last byte of an element may look untouched. On a GPU
// what is saved is exact too, but libraries of matrix products use of their workspaces what they like.
void check_exact(const KernelBuffer& buffer, uint64_t bytes, bool workspace = false) {
  CHECK(touched(buffer) <= bytes);
  if (!workspace || zrt::test::test_device() == zrt::core::DeviceKind::cpu) CHECK(touched(buffer) + 4 > bytes);
}

}  // namespace

TEST_CASE("gradients with dropout match finite differences of the loss under the same masks") {
  const Gpt2Config config = small(0.3f, GENERATE(true, false));
  const Model model = make_gpt2(config);
  BlockRunner runner(model, {.B = 3, .T = 13});
  RunOptions options;
  options.seed = 5, options.step = 9, options.first_sample = 21;
  options.loss_scale = 1;
  const Batch batch = recipe_batch(config, 3, 13, 0);
  const Tensors weights = recipe_weights(config);
  runner.load(weights);
  runner.train(batch, options);
  const Tensors grads = runner.grads();
  for (const auto& [name, grad] : grads) {
    if (name.find("c_attn.bias") != std::string::npos) continue;
    INFO(name);
    // Weights move along the gradient itself: the derivative is its squared norm.
    double norm = 0;
    for (const double g : grad) norm += g * g;
    const double step = 0.02 / std::sqrt(norm);
    double losses[2];
    for (const int side : {0, 1}) {
      Tensors moved = weights;
      for (size_t i = 0; i < grad.size(); ++i) moved.at(name)[i] += (side == 0 ? step : -step) * grad[i];
      runner.load(moved);
      runner.forget_grads();
      losses[side] = runner.train(batch, options);
    }
    CHECK((losses[0] - losses[1]) / (2 * step * norm) == Approx(1).margin(5e-3));
  }
}

TEST_CASE("dropout depends on the sample and the step, not on microbatches or recomputation") {
  const Gpt2Config config = small(0.3f);
  const Model model = make_gpt2(config);
  const Batch batch = recipe_batch(config, 4, 13, 0);
  RunOptions options;
  options.loss_scale = 0.1f, options.first_sample = 4;
  BlockRunner whole(model, {.B = 4, .T = 13}), half(model, {.B = 2, .T = 13});
  whole.load(recipe_weights(config)), half.load(recipe_weights(config));
  const double loss = whole.train(batch, options);
  double sum = 0;
  for (size_t part : {0u, 1u}) {
    Batch piece = batch;
    piece.B = 2;
    piece.tokens.assign(batch.tokens.begin() + static_cast<int64_t>(part) * 26,
                        batch.tokens.begin() + static_cast<int64_t>(part + 1) * 26);
    piece.targets.assign(batch.targets.begin() + static_cast<int64_t>(part) * 26,
                         batch.targets.begin() + static_cast<int64_t>(part + 1) * 26);
    options.first_sample = 4 + 2 * part;
    sum += half.train(piece, options);
  }
  CHECK(sum == Approx(loss).epsilon(1e-6));
  const Tensors expected = whole.grads(), got = half.grads();
  for (const auto& [name, grad] : expected) CHECK(distance(got.at(name), grad) < 2e-6);

  options.first_sample = 4;
  const Tensors before = whole.grads();
  whole.forget_grads();
  options.recompute = true;
  CHECK(whole.train(batch, options) == loss);
  CHECK(whole.grads() == before);
  options.first_sample = 5;
  CHECK(whole.train(batch, options) != loss);
  options.first_sample = 4, options.step = 1;
  CHECK(whole.train(batch, options) != loss);
  options.step = 0, options.seed = 2;
  CHECK(whole.train(batch, options) != loss);
}

namespace {

Model gemma() {
  LlamaConfig config{.layers = 1, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 40, .sequence = 150, .vocab = 61};
  config.gemma = config.head_norms = true, config.windows.window = 40;
  config.attention_cap = 2, config.logit_cap = 3;
  return make_llama(config);
}

}  // namespace

TEST_CASE("blocks touch their saved memory and workspaces to the last byte and not beyond") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t T = GENERATE(1, 7, 150);
  zrt::core::set_threads(GENERATE(1, 2));
  const int which = GENERATE(0, 1, 2, 3, 4);
  const Model model =
      which == 4 ? gemma()
      : which < 2
          ? make_gpt2(
                {.layers = 1, .hidden = 24, .heads = 3, .sequence = 150, .vocab = 61, .dropout = which == 0 ? 0 : 0.1f})
          : make_llama({.layers = 1,
                        .hidden = 24,
                        .heads = 6,
                        .kv_heads = which == 2 ? 2 : 6,
                        .ffn = which == 2 ? 29 : 200,
                        .sequence = 150,
                        .vocab = 61});
  for (const auto& block : model.blocks) {
    INFO(block->name() << " T " << T << " of " << model.type);
    const Shape train{2, T, type, type, Mode::train};
    Bench forward(*block, train, 24, 61, false);
    block->forward(forward.call);
    check_exact(forward.saved, forward.saved_bytes);
    check_exact(forward.workspace, forward.workspace_bytes, true);
    Bench backward(*block, train, 24, 61, true);
    backward.saved = forward.saved;
    backward.keep_in(backward.saved, all_parts);
    block->backward(backward.call);
    CHECK(backward.saved == forward.saved);
    check_exact(backward.workspace, backward.workspace_bytes, true);
    Bench eval(*block, {2, T, type, type, Mode::eval}, 24, 61, false);
    block->forward(eval.call);
    check_exact(eval.workspace, eval.workspace_bytes, true);

    const Shape one{2, T, type, type, Mode::decode};
    Bench decode(*block, one, 24, 61, false);
    KernelBuffer cache(DType::bf16, Bench::words(block->cache_bytes(one)));
    decode.call.cache = static_cast<std::byte*>(cache.data());
    decode.call.position = T - 1;
    block->decode(decode.call);
    check_exact(decode.workspace, decode.workspace_bytes, true);
    check_exact(cache, block->cache_bytes(one));
  }
  zrt::core::set_threads(1);
}

TEST_CASE("a recompute leaves the bits that forward left, in buffers of the declared sizes") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t T = GENERATE(7, 150);
  const int which = GENERATE(0, 1, 2);
  const bool llama = which == 2;
  const float dropout = which == 0 ? 0 : 0.1f;
  const Model model =
      llama
          ? make_llama({.layers = 1, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 40, .sequence = 150, .vocab = 61})
          : make_gpt2({.layers = 1, .hidden = 24, .heads = 3, .sequence = 150, .vocab = 61, .dropout = dropout});
  const Block& block = *model.blocks[1];
  INFO(block.name() << " T " << T << " dropout " << dropout);
  const Shape shape{2, T, type, type, Mode::train};
  const Parts light = block.anatomy().light, rerun = parts_to_rerun(block, shape);
  const Parts left_out{static_cast<uint8_t>(light.first + 1), light.end};
  CHECK(rerun.end < block.anatomy().parts.size());  // the last products are not needed
  CHECK(light.end == rerun.end);

  Bench once(block, shape, 24, 61, false), twice(block, shape, 24, 61, false), some(block, shape, 24, 61, false);
  Bench whole(block, shape, 24, 61, true), parts(block, shape, 24, 61, true);
  for (Bench* other : {&twice, &some, &whole, &parts}) {
    other->call.input = once.call.input, other->call.d_output = once.call.d_output;
    other->call.weights = once.weight_pointers;
  }
  block.forward(once.call);
  twice.call.output = nullptr;
  twice.call.parts = rerun;
  block.forward(twice.call);
  settle();
  CHECK(twice.saved == once.saved);

  const uint64_t kept_bytes = lay_out_saved(block, shape, all_parts, left_out);
  const uint64_t remade_bytes = lay_out_saved(block, shape, left_out);
  KernelBuffer kept(DType::bf16, Bench::words(kept_bytes));
  KernelBuffer remade(DType::bf16, Bench::words(remade_bytes)), again = remade;
  some.keep_in(kept, all_parts, left_out);
  some.keep_in(remade, left_out);
  block.forward(some.call);
  CHECK(some.output == once.output);
  check_exact(kept, kept_bytes);
  check_exact(remade, remade_bytes);
  const KernelBuffer before = kept;
  some.call.output = nullptr;
  some.keep_in(again, left_out);
  some.call.parts = light, some.call.again = true;
  block.forward(some.call);
  settle();
  CHECK(again == remade);
  CHECK(kept == before);

  whole.keep_in(once.saved, all_parts);
  parts.keep_in(kept, all_parts, left_out);
  parts.keep_in(again, left_out);
  block.backward(whole.call), block.backward(parts.call);
  settle();
  CHECK(parts.d_input == whole.d_input);
  for (size_t i = 0; i < whole.grads.size(); ++i) CHECK(parts.grads[i] == whole.grads[i]);
}

// cuBLASLt rounds a product to bf16 before it adds what was there (an H100, version 13.1).
TEST_CASE("a bf16 gradient of the output weights is rounded once however many chunks it is summed from") {
  const int64_t V = 4200, C = 24;
  Gpt2Config config{.layers = 1, .hidden = C, .heads = 1, .sequence = 650, .vocab = V};
  const Model model = make_gpt2(config);
  const Block& head = *model.blocks.back();
  const bool accumulate = GENERATE(false, true);
  const int64_t T = GENERATE(300, 650);
  Bench half(head, {2, T, DType::bf16, DType::bf16, Mode::train}, C, V, true);
  Bench full(head, {2, T, DType::bf16, DType::f32, Mode::train}, C, V, true);
  std::vector<KernelBuffer> before;
  for (size_t i = 0; i < half.weights.size(); ++i) {
    if (accumulate) half.grads[i] = KernelBuffer::random(DType::bf16, half.grads[i].size(), 1e-4);
    for (int64_t e = 0; e < half.grads[i].size(); ++e) full.grads[i].set(e, static_cast<float>(half.grads[i].at(e)));
    before.push_back(half.grads[i]);
    half.accumulate[i] = full.accumulate[i] = accumulate;
    half.call.grads = half.grad_pointers, full.call.grads = full.grad_pointers;
    half.grad_pointers[i] = half.grads[i].data(), full.grad_pointers[i] = full.grads[i].data();
    full.weight_pointers[i] = half.weight_pointers[i];
  }
  full.call.input = half.call.input;
  head.forward(half.call);
  head.forward(full.call);
  head.backward(half.call);
  head.backward(full.call);
  settle();
  CHECK(half.loss == full.loss);
  for (size_t i = 0; i < half.weights.size(); ++i) {
    // The order of the fp32 sums differs a little, so a few elements next to a tie may.
    int64_t different = 0;
    for (int64_t e = 0; e < half.grads[i].size(); ++e) {
      const zrt::core::bf16 rounded = zrt::core::to_bf16(static_cast<float>(full.grads[i].at(e)));
      different += static_cast<double>(zrt::core::to_float(rounded)) != half.grads[i].at(e);
    }
    if (accumulate && zrt::test::test_device() == zrt::core::DeviceKind::cuda) {
      double worst = 0;  // in units of what both roundings may cost
      for (int64_t e = 0; e < half.grads[i].size(); ++e) {
        const double sum = full.grads[i].at(e), added = sum - before[i].at(e);
        const double legal = 0x1p-8 * (std::abs(sum) + std::abs(added)) + 1e-30;
        worst = std::max(worst, std::abs(half.grads[i].at(e) - sum) / legal);
      }
      CHECK(worst < 1.01);
      continue;
    }
    CHECK(different * 100 <= half.grads[i].size());
  }
}

TEST_CASE("the head holds at most 512 rows of logits, on a GPU 8192") {
  const int64_t T = zrt::test::test_device() == zrt::core::DeviceKind::cpu ? 8192 : 8 * 16384;
  const Model model = make_gpt2({.layers = 1, .hidden = 64, .heads = 1, .sequence = T, .vocab = 50304});
  const Block& head = *model.blocks.back();
  const uint64_t logits = static_cast<uint64_t>(T) * 50304 * 4;
  CHECK(backward_workspace(head, {1, T}) < logits / 8);
  CHECK(head.forward_workspace_bytes({1, T, DType::f32, DType::f32, Mode::eval}) < logits / 8);
}

TEST_CASE("attention saves nothing quadratic in the sequence and dropout saves nothing") {
  const Model plain = make_gpt2({.layers = 1, .hidden = 64, .heads = 4, .sequence = 4096, .vocab = 97});
  const Model dropped =
      make_gpt2({.layers = 1, .hidden = 64, .heads = 4, .sequence = 4096, .vocab = 97, .dropout = 0.1f});
  const auto saved = [](const Model& model, size_t block, int64_t T) {
    return lay_out_saved(*model.blocks[block], {1, T}, all_parts);
  };
  for (size_t i = 0; i < plain.blocks.size(); ++i) {
    CHECK(saved(plain, i, 4096) == 2 * saved(plain, i, 2048));
    CHECK(saved(plain, i, 4096) == saved(dropped, i, 4096));
  }
  CHECK(plain.blocks[1]->forward_workspace_bytes({1, 4096}) < 3 * plain.blocks[1]->forward_workspace_bytes({1, 2048}));
}

TEST_CASE("parameters and FLOPs of GPT-2 124M are the known ones") {
  Gpt2Config config{.vocab = 50257};
  const Model model = make_gpt2(config);
  CHECK(model.parameters() == 124439808);
  CHECK(model.flops_per_token() == 6.0 * (124439808 - 1024 * 768) + 6.0 * 12 * 768 * 1024);
  CHECK(model.blocks.size() == 14);
  const auto refs = model.canonical_params();
  CHECK(refs.size() == 148);
  const auto name = [&](size_t i) { return model.blocks[refs[i].block]->params()[refs[i].index].name; };
  CHECK(name(0) == "wte.weight");
  CHECK(name(2) == "h.0.ln_1.weight");
  CHECK(name(147) == "ln_f.bias");
  config.tied = false;
  CHECK(make_gpt2(config).parameters() == 124439808 + 50257 * 768);
  double flops = 0;
  for (const auto& block : model.blocks) flops += block->forward_flops({1, 1024});
  CHECK(3 * flops / 1024 == Approx(model.flops_per_token()).epsilon(1e-3));
}

TEST_CASE("contradictory sizes are refused by the name of their key") {
  Gpt2Config config = small();
  config.heads = 3;
  CHECK_THROWS_WITH(make_gpt2(config), Contains("model.heads is 3") && Contains("32"));
  config = small();
  config.dropout = 1;
  CHECK_THROWS_AS(make_gpt2(config), zrt::core::ConfigError);
  config = small();
  config.vocab = 0;
  CHECK_THROWS_WITH(make_gpt2(config), Contains("model.vocab is 0"));
}

TEST_CASE("blocks refuse types, lengths and tokens they cannot compute with", "[cpu]") {
  ZRT_ONLY_ON_CPU();  // tokens in memory of the GPU are checked before they go there
  const Model model = make_gpt2(small());
  Bench embedding(*model.blocks[0], {2, 5}, 32, 97, false);
  embedding.tokens[7] = 97;
  CHECK_THROWS_WITH(model.blocks[0]->forward(embedding.call), Contains("token 97 at row 7"));
  embedding.tokens[7] = -1;
  CHECK_THROWS_AS(model.blocks[0]->backward(embedding.call), zrt::core::DataError);
  Bench head(*model.blocks[3], {2, 5}, 32, 97, true);
  head.tokens[0] = 1000;
  CHECK_THROWS_WITH(model.blocks[3]->backward(head.call), Contains("token 1000 at row 0"));
  CHECK_THROWS_WITH(model.blocks[1]->forward_workspace_bytes({1, 17}), Contains("model.sequence"));
  CHECK_THROWS_WITH(model.blocks[1]->forward_workspace_bytes({1, 16, DType::bf16, DType::f16}), Contains("fp16"));
}

}  // namespace zrt::blocks_test
