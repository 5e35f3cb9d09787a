// Attention in samples of several documents, each of which attends to itself alone.
#include <numeric>

#include "models/kernels/cpu/attention_plan.h"
#include "tests/models/attention_check.h"

namespace zrt::attention_documents_test {

using namespace zrt::attention_check;

namespace {

// Positions of documents of these lengths, one behind the other; what is left of T are documents of one token each.
std::vector<int32_t> positions_of(const std::vector<int64_t>& lengths, int64_t T) {
  std::vector<int32_t> positions;
  for (const int64_t length : lengths) {
    for (int64_t t = 0; t < length; ++t) positions.push_back(static_cast<int32_t>(t));
  }
  positions.resize(index(T));
  return positions;
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

AttentionShape shape_of(int64_t B, int64_t T, int64_t heads, int64_t kv_heads, int64_t width, DType type,
                        float dropout = 0, const AttentionPattern& pattern = {}) {
  return {B, T, heads, kv_heads, width, type, dropout, 0, 0, pattern};
}

}  // namespace

TEST_CASE("tokens of a document attend to it alone, wherever it begins", "[chips]") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  check(shape_of(1, 1, 1, 1, 4, type, dropout), {0});
  check(shape_of(1, 45, 4, 2, 8, type, dropout), positions_of({45}, 45));
  check(shape_of(1, 45, 4, 2, 8, type, dropout), positions_of({}, 45));
  const std::vector<int32_t> two = joined(positions_of({1, 63, 64, 2, 17, 100}, 300), positions_of({130, 127}, 300));
  check(shape_of(2, 300, 2, 1, 24, type, dropout), two);
  check(shape_of(1, 150, 2, 2, 64, type, dropout), positions_of({31, 33, 64, 15}, 150));
}

TEST_CASE("documents in heads of the widths in use match naive fp64 attention") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  const int64_t width = GENERATE(64, 80, 128);
  check(shape_of(1, 330, 2, 1, width, type), positions_of({100, 28, 130, 40}, 330));
}

TEST_CASE("a document of more tiles than a warp has lanes is seen to its end, and so are many units") {
  check(shape_of(1, 2240, 1, 1, 64, DType::bf16), positions_of({2150, 90}, 2240));
  check(shape_of(1, 700, 1, 1, 32, DType::bf16, 0.25f), positions_of({620, 80}, 700));
}

TEST_CASE("documents match naive fp64 attention in windows, in sparse patterns and with capped scores") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  using Kind = AttentionPattern::Kind;
  const std::vector<int32_t> places = positions_of({70, 3, 90, 66}, 250);
  for (const int64_t window : {1, 20, 64, 65, 120}) {
    check(shape_of(1, 250, 2, 1, 16, type, 0, AttentionPattern::of_window(window, 250)), places);
  }
  check(shape_of(1, 250, 8, 8, 16, type, 0, {Kind::fixed, true, false, 16, 8, 1, 8}), places);
  check(shape_of(1, 250, 2, 2, 16, type, 0, {Kind::sliding, true, false, 16, 3, 1, 1}), places);
  AttentionShape capped = shape_of(1, 250, 2, 1, 24, type);
  capped.cap = 0.7f;
  check(capped, places);
}

TEST_CASE("one document of a whole sample has the attention of a sample without documents, but for rounding") {
  const AttentionShape plain = shape_of(1, 200, 2, 2, 16, DType::f32);
  const KernelBuffer qkv = KernelBuffer::random(DType::f32, 200 * plain.row()),
                     d_out = KernelBuffer::random(DType::f32, 200 * plain.C()), place = words(positions_of({200}, 200));
  AttentionShape one = plain;
  one.documents = true, one.positions = static_cast<const int32_t*>(place.data());
  const Result a = run(plain, qkv, d_out, {}, 0), b = run(one, qkv, d_out, {}, 0);
  CHECK(error_of(b.out, doubles(a.out)) < tolerance(DType::f32));
  CHECK(error_of(b.d_qkv, doubles(a.d_qkv)) < 2 * tolerance(DType::f32));
}

TEST_CASE("a document's attention does not depend on what else is in its sample, but for rounding") {
  const int64_t T = 192, begin = 77, length = 90;
  const AttentionShape alone = shape_of(1, length, 2, 1, 16, DType::f32);
  AttentionShape packed = shape_of(1, T, 2, 1, 16, DType::f32);
  const KernelBuffer place = words(positions_of({begin, length}, T));
  packed.documents = true, packed.positions = static_cast<const int32_t*>(place.data());
  const KernelBuffer qkv = KernelBuffer::random(DType::f32, T * packed.row()),
                     d_out = KernelBuffer::random(DType::f32, T * packed.C());
  const auto part = [&](const KernelBuffer& of, int64_t width) {
    KernelBuffer own(DType::f32, length * width);
    for (int64_t i = 0; i < own.size(); ++i) own.set(i, static_cast<float>(of.at(begin * width + i)));
    return own;
  };
  const Result together = run(packed, qkv, d_out, {}, 0);
  const Result apart = run(alone, part(qkv, alone.row()), part(d_out, alone.C()), {}, 0);
  CHECK(error_of(part(together.out, alone.C()), doubles(apart.out)) < tolerance(DType::f32));
  CHECK(error_of(part(together.d_qkv, alone.row()), doubles(apart.d_qkv)) < 2 * tolerance(DType::f32));
}

TEST_CASE("a processor's tiles leave out the keys of other documents, but for those up to a multiple of 64") {
  const auto scores = [](const std::vector<int64_t>& lengths, int64_t T, const AttentionPattern& pattern) {
    const std::vector<int32_t> places = positions_of(lengths, T);
    AttentionShape s = shape_of(1, T, 1, 1, 16, DType::f32, 0, pattern);
    s.documents = true, s.positions = places.data();
    int64_t count = 0;
    for (const cpu::AttentionTile& tile : cpu::document_tiles((*cpu::attention_plans(s, false))[0], s, 0)) {
      CHECK(tile.begin % 64 == 0);
      CHECK(tile.runs.front().begin + tile.runs.front().count == tile.begin + tile.rows);
      count += tile.rows * tile.keys;
    }
    return count;
  };
  // 16 tiles of 64 queries: over 1 to 16 times 64 keys where all is one document, over one each where eight are.
  CHECK(scores({1024}, 1024, {}) == 64 * 64 * (16 * 17 / 2));
  CHECK(scores(std::vector<int64_t>(16, 64), 1024, {}) == 64 * 64 * 16);
  CHECK(scores(std::vector<int64_t>(8, 128), 1024, {}) == 64 * 64 * 8 * 3);
  CHECK(scores({}, 1000, {}) == 64 * 64 * 15 + 40 * 40);
  CHECK(scores({1024}, 1024, AttentionPattern::of_window(65, 1024)) == 64 * 64 * (1 + 15 * 2));
}

}  // namespace zrt::attention_documents_test
