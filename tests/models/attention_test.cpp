#include "models/kernels/attention.h"

#include <algorithm>
#include <tuple>

#include "catch.h"
#include "core/parallel.h"
#include "models/kernels/cuda/attention_order.h"
#include "tests/models/attention_check.h"

namespace zrt::attention_test {

using namespace zrt::attention_check;
using namespace zrt::models;
using namespace zrt::test;

namespace {

struct Columns {
  int64_t begin, count;
};

// These columns of a buffer of `rows` rows, side by side.
KernelBuffer columns_of(DType type, const KernelBuffer& from, int64_t rows, const std::vector<Columns>& cuts) {
  const int64_t stride = from.size() / rows;
  int64_t width = 0, at = 0;
  for (const Columns& cut : cuts) width += cut.count;
  KernelBuffer to(type, rows * width);
  for (int64_t row = 0; row < rows; ++row) {
    for (const auto& [begin, count] : cuts) {
      for (int64_t i = begin; i < begin + count; ++i) to.set(at++, static_cast<float>(from.at(row * stride + i)));
    }
  }
  return to;
}

}  // namespace

TEST_CASE("attention matches naive fp64 attention at lengths that no tile divides", "[chips]") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  check({1, 1, 1, 1, 4, type, dropout});
  check({2, 13, 3, 3, 5, type, dropout});
  check({3, 128, 1, 1, 16, type, dropout});
  check({1, 131, 2, 2, 64, type, dropout});
  check({1, 300, 2, 2, 24, type, dropout});
}

TEST_CASE("heads that share keys and values match naive fp64 attention", "[chips]") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  check({1, 1, 2, 1, 4, type, dropout});
  check({2, 13, 4, 2, 5, type, dropout});
  check({1, 131, 6, 2, 16, type, dropout});
  check({2, 300, 3, 1, 24, type, dropout});
}

TEST_CASE("heads of the widths in use match naive fp64 attention") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  const int64_t width = GENERATE(40, 64, 80, 96, 128);
  check({1, 129, 4, 2, width, type, dropout});
}

TEST_CASE("attention in both directions matches naive fp64 attention", "[chips]") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  const AttentionPattern both{.causal = false};
  check({1, 1, 1, 1, 4, type, dropout, 0, 0, both});
  check({2, 13, 4, 2, 5, type, dropout, 0, 0, both});
  check({1, 131, 3, 3, 64, type, dropout, 0, 0, both});
  check({1, 300, 3, 1, 24, type, dropout, 0, 0, both});
  check({1, 129, 4, 2, 80, type, dropout, 0, 0, both});
}

namespace {

std::vector<AttentionPattern> patterns() {
  using Kind = AttentionPattern::Kind;
  std::vector<AttentionPattern> all;
  for (const bool causal : {true, false}) {
    for (const bool horizontal : {false, true}) {
      if (horizontal && causal) continue;
      all.push_back({Kind::fixed, causal, horizontal, 16, 8, 1, 8});
      all.push_back({Kind::fixed, causal, horizontal, 16, 4, 2, 2});
      all.push_back({Kind::fixed, causal, horizontal, 32, 2, 1, 1});
      all.push_back({Kind::sliding, causal, horizontal, 16, 3, 1, 1});
      all.push_back({Kind::sliding, causal, horizontal, 16, 4, 0, 1});
    }
    all.push_back({Kind::fixed, causal, false, 5, 3, 1, 3});
    all.push_back({Kind::sliding, causal, false, 8, 1, 2, 1});
  }
  return all;
}

}  // namespace

TEST_CASE("sparse attention matches naive fp64 attention over the keys that its pattern keeps") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  for (const AttentionPattern& pattern : patterns()) {
    check({1, 1, 1, 1, 4, type, dropout, 0, 0, pattern});
    check({2, 45, 4, 2, 5, type, dropout, 0, 0, pattern});
    // One pattern of several tiles is enough with dropout: an emulated GPU draws numbers slowly.
    const bool several = dropout == 0 || pattern == patterns().front();
    if (several) check({1, 150, 9, 3, 24, type, dropout, 0, 0, pattern});
  }
}

TEST_CASE("sparse heads of the widths in use match naive fp64 attention") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  const int64_t width = GENERATE(64, 80, 128);
  for (const bool causal : {true, false}) {
    check({1, 300, 4, 2, width, type, 0, 0, 0, {AttentionPattern::Kind::fixed, causal, false, 16, 8, 1, 8}});
    check({1, 300, 4, 2, width, type, 0, 0, 0, {AttentionPattern::Kind::sliding, causal, false, 16, 3, 1, 1}});
  }
}

TEST_CASE("keys that stand for a window beside keys before them match naive fp64 attention") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  using Kind = AttentionPattern::Kind;
  check({1, 64, 6, 6, 64, type, 0, 0, 0, {Kind::fixed, true, false, 16, 8, 1, 8}});
  check({1, 128, 6, 3, 64, type, 0, 0, 0, {Kind::fixed, true, false, 16, 8, 1, 8}});
  check({1, 192, 1, 1, 40, type, 0, 0, 0, {Kind::fixed, true, false, 48, 4, 1, 1}});
}

TEST_CASE("DeepSpeed's fixed pattern keeps 1,536 of 8,256 causal blocks at 2,048 positions, and 192 of 528 at 512") {
  const AttentionPattern fixed{AttentionPattern::Kind::fixed, true, false, 16, 8, 1, 8};
  const AttentionPattern dense{AttentionPattern::Kind::dense, true, false, 16};
  for (int64_t head = 0; head < 16; ++head) {
    CHECK(fixed.kept(2048, head) == 1536);
    CHECK(fixed.kept(512, head) == 192);
    for (int block = 0; block < 8; ++block) CHECK(fixed.of(head, 128).stands(8 + block) == (block == 7 - head % 8));
  }
  CHECK(dense.kept(2048, 0) == 8256);
  CHECK(dense.kept(512, 0) == 528);
  CHECK(fixed.share(2048) == 1536.0 / 8256);
  CHECK(dense.share(2048) == 1);
}

TEST_CASE("a pattern keeps the blocks that its description says, whatever the sequence's end cuts off") {
  for (const AttentionPattern& pattern : patterns()) {
    for (const int64_t T : {1, 7, 45, 64, 300}) {
      const int blocks = pattern.blocks(T);
      for (int64_t head = 0; head < 4; ++head) {
        const HeadPattern of_head = pattern.of(head, blocks);
        int64_t kept = 0, wrong = 0;
        for (int64_t q = 0; q < blocks; ++q) {
          for (int64_t k = 0; k < blocks; ++k) {
            const bool keeps = of_head.keeps(static_cast<int>(q), static_cast<int>(k));
            // The first key of a block is not behind the first query of it.
            wrong += keeps != sees(pattern, T, head, q * pattern.block, k * pattern.block);
            kept += keeps;
          }
        }
        CHECK(wrong == 0);
        CHECK(kept == pattern.kept(T, head));
      }
    }
  }
}

TEST_CASE("heads wider than the widest in use match naive fp64 attention") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  check({1, 40, 2, 1, 130, type, 0});
  check({1, 35, 2, 1, 264, type, 0.25f});
}

TEST_CASE("attention of buffers that start anywhere matches naive fp64 attention") {
  const AttentionShape s{2, 70, 4, 2, 64, GENERATE(DType::f32, DType::bf16, DType::f16), 0};
  const int64_t shift = GENERATE(1, 3);
  const KernelBuffer qkv = KernelBuffer::random(s.type, s.B * s.T * s.row(), 2);
  const KernelBuffer d_out = KernelBuffer::random(s.type, s.B * s.T * s.C());
  const Reference expected = reference(s, qkv, d_out, {}, 0);
  const auto shifted = [&](const KernelBuffer& from) {
    KernelBuffer to(s.type, from.size() + shift);
    for (int64_t i = 0; i < from.size(); ++i) to.set(i + shift, static_cast<float>(from.at(i)));
    return to;
  };
  const auto at = [&](KernelBuffer& buffer) {
    return static_cast<std::byte*>(buffer.data()) + index(shift) * zrt::core::dtype_size(s.type);
  };
  KernelBuffer in = shifted(qkv), d = shifted(d_out), out(s.type, d.size()), d_qkv(s.type, in.size());
  KernelBuffer lse(DType::f32, s.B * s.heads * s.T);
  KernelBuffer workspace(
      DType::f32,
      static_cast<int64_t>(std::max(attention_forward_workspace(s), attention_backward_workspace(s)) / 4 + 1));
  std::byte* const space = static_cast<std::byte*>(workspace.data());
  attention_forward(s, at(in), at(out), lse.floats(), {}, 0, space);
  attention_backward(s, at(in), at(out), lse.floats(), at(d), at(d_qkv), {}, 0, space);
  const auto error = [&](const KernelBuffer& got, const Doubles& wanted) {
    KernelBuffer values(s.type, got.size() - shift);
    for (int64_t i = 0; i < values.size(); ++i) values.set(i, static_cast<float>(got.at(i + shift)));
    return error_of(values, wanted);
  };
  const double limit = limit_of_many(s.type);
  CHECK(error(out, expected.out) < limit);
  CHECK(error(d_qkv, expected.d_qkv) < limit);
  const KernelBuffer poison(s.type, shift);
  for (int64_t i = 0; i < shift; ++i) CHECK(d_qkv.at(i) == poison.at(i));
}

TEST_CASE("heads cut among ranks give the bits of all heads together, dropout and all") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [ranks, kv_heads, width] =
      GENERATE(std::tuple(2, 6, 5), std::tuple(3, 6, 8), std::tuple(3, 3, 72), std::tuple(2, 2, 16));
  const AttentionPattern pattern = GENERATE(AttentionPattern{}, AttentionPattern{.causal = false},
                                            AttentionPattern{AttentionPattern::Kind::fixed, true, false, 16, 4, 1, 4});
  const AttentionShape whole{2, 131, 6, kv_heads, width, type, 0.25f, 0, 0, pattern};
  AttentionShape part = whole;
  part.heads /= ranks, part.kv_heads /= ranks, part.all_heads = whole.heads;
  const int64_t rows = whole.B * whole.T, C = whole.C(), kv = part.kv();
  const KernelBuffer qkv = KernelBuffer::random(type, rows * whole.row(), 2);
  const KernelBuffer d_out = KernelBuffer::random(type, rows * C);
  const Dropout dropout{{11, 12, 13}, whole.dropout};
  const Result expected = run(whole, qkv, d_out, dropout, 5);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank << " of " << ranks << " heads " << whole.heads << "/" << kv_heads << " width " << width);
    part.first_head = rank * part.heads;
    const Columns queries{rank * part.C(), part.C()}, keys{C + rank * kv, kv}, values{keys.begin + whole.kv(), kv};
    const Result got = run(part, columns_of(type, qkv, rows, {queries, keys, values}),
                           columns_of(type, d_out, rows, {queries}), dropout, 5);
    CHECK(got.out == columns_of(type, expected.out, rows, {queries}));
    CHECK(got.d_qkv == columns_of(type, expected.d_qkv, rows, {queries, keys, values}));
  }
}

TEST_CASE("a GPU's blocks take every tile of every head once, the longest of a chunk first") {
  const int64_t heads = GENERATE(1, 5, 48), T = GENERATE(1, 128, 1000), bytes = GENERATE(1, 3 << 20, 1 << 30);
  const cuda::TileOrder order = cuda::tile_order(heads, T, 128, bytes);
  CHECK(order.tiles == (T + 127) / 128);
  std::vector<int> taken(index(order.blocks()));
  for (int block = 0; block < order.blocks(); ++block) {
    const auto item = order.at(block);
    REQUIRE(item.head < order.heads);
    REQUIRE(item.rank < order.tiles);
    ++taken[index(item.head * order.tiles + item.rank)];
    if (block > 0) {
      const auto before = order.at(block - 1);
      const bool same = before.head / order.chunk == item.head / order.chunk;
      CHECK((same ? item.rank >= before.rank : item.rank == 0));
    }
  }
  CHECK(std::count(taken.begin(), taken.end(), 1) == order.blocks());
}

TEST_CASE("attention of one new token equals the last row of attention over all of them") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const AttentionPattern pattern = GENERATE(
      AttentionPattern{}, AttentionPattern{AttentionPattern::Kind::fixed, true, false, 4, 3, 1, 3},
      AttentionPattern{AttentionPattern::Kind::sliding, true, false, 5, 2, 1, 1}, AttentionPattern::of_window(9, 37));
  const float cap = GENERATE(0.0f, 0.8f);
  const AttentionShape s{2, 37, 6, GENERATE(1, 3, 6), 10, type, 0, 0, 0, pattern, 7, cap};
  zrt::core::set_threads(GENERATE(1, 2));
  const int64_t C = s.C(), width = s.row();
  const KernelBuffer qkv = KernelBuffer::random(type, s.B * s.T * width);
  const KernelBuffer d_out = KernelBuffer::random(type, s.B * s.T * C);
  const Doubles expected = reference(s, qkv, d_out, {}, 0).out;
  KernelBuffer cache(DType::bf16, static_cast<int64_t>(attention_cache(s) / 2));
  for (int64_t t = 0; t < s.T; ++t) {
    KernelBuffer row(type, s.B * width), out(type, s.B * C);
    KernelBuffer workspace = KernelBuffer::random(DType::f32, static_cast<int64_t>(attention_decode_workspace(s) / 4));
    Doubles last;
    for (int64_t b = 0; b < s.B; ++b) {
      for (int64_t i = 0; i < width; ++i) row.set(b * width + i, static_cast<float>(qkv.at((b * s.T + t) * width + i)));
      for (int64_t i = 0; i < C; ++i) last.push_back(expected[index((b * s.T + t) * C + i)]);
    }
    attention_decode(s, row.data(), out.data(), t, static_cast<std::byte*>(cache.data()),
                     static_cast<std::byte*>(workspace.data()));
    CHECK(error_of(out, last) < tolerance(type));
  }
  zrt::core::set_threads(1);
}

}  // namespace zrt::attention_test
