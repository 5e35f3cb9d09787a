// Norms of rows of every length that kernels treat differently, at any address, alone and with a residual sum.
#include "catch.h"
#include "models/kernels/kernels.h"
#include "tests/models/shifted_buffer.h"

namespace zrt::norms_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

struct Inputs {
  NormKind kind;
  DType type;
  int64_t rows, C;
  KernelBuffer x, gamma, beta, dy, add;
  NormRows layout() const { return {rows, C}; }
  static Inputs random(NormKind kind, DType type, int64_t rows, int64_t C) {
    const auto fresh = [&](int64_t n) { return KernelBuffer::random(type, n, 2); };
    return {kind, type, rows, C, fresh(rows * C), fresh(C), fresh(C), fresh(rows * C), fresh(rows * C)};
  }
};

struct Results {
  KernelBuffer y, mean, rstd, dx, dgamma, dbeta;
  bool operator==(const Results& o) const {
    return y == o.y && mean == o.mean && rstd == o.rstd && dx == o.dx && dgamma == o.dgamma && dbeta == o.dbeta;
  }
};

Results run(const Inputs& in, int64_t shift) {
  const auto [kind, type, rows, C] = std::tuple(in.kind, in.type, in.rows, in.C);
  const auto shifted = [&](const KernelBuffer& values) { return Shifted(in.type, values, shift); };
  Shifted x = shifted(in.x), gamma = shifted(in.gamma), beta = shifted(in.beta), dy = shifted(in.dy),
          add = shifted(in.add), y = shifted(KernelBuffer(type, rows * C));
  Results r{{type, 0}, {DType::f32, rows}, {DType::f32, rows}, {type, 0}, {DType::f32, C}, {DType::f32, C}};
  const bool layer = kind == NormKind::layer;
  float* mean = layer ? r.mean.floats() : nullptr;
  norm(kind, type, x.data(), gamma.data(), layer ? beta.data() : nullptr, y.data(), mean, r.rstd.floats(), 1e-5f,
       in.layout());
  KernelBuffer workspace =
      KernelBuffer::random(DType::f32, static_cast<int64_t>(norm_backward_workspace(kind, rows, C) / 4));
  norm_backward(kind, type, x.data(), gamma.data(), dy.data(), mean, r.rstd.floats(), add.data(), add.data(),
                {r.dgamma.data(), DType::f32, false},
                layer ? GradTarget{r.dbeta.data(), DType::f32, false} : GradTarget{}, in.layout(), workspace.data());
  r.y = y.values(), r.dx = add.values();
  return r;
}

void check(const Inputs& in, const Results& got) {
  const int64_t C = in.C;
  const bool layer = in.kind == NormKind::layer;
  Doubles gamma = doubles(in.gamma);
  for (double& gain : gamma) gain += in.kind == NormKind::rms_from_one ? 1 : 0;
  const Doubles x = doubles(in.x), beta = doubles(in.beta), dy = doubles(in.dy), add = doubles(in.add);
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  Doubles y, dx, dgamma(static_cast<size_t>(C)), dbeta(static_cast<size_t>(C));
  for (int64_t r = 0; r < in.rows; ++r) {
    double m = 0, v = 0, sum = 0, dot = 0;
    const double width = static_cast<double>(C);
    for (int64_t c = 0; c < C && layer; ++c) m += x[at(r * C + c)] / width;
    for (int64_t c = 0; c < C; ++c) v += std::pow(x[at(r * C + c)] - m, 2) / width;
    const double s = 1 / std::sqrt(v + 1e-5);
    for (int64_t c = 0; c < C; ++c) {
      const double xhat = (x[at(r * C + c)] - m) * s, d = dy[at(r * C + c)], g = d * gamma[at(c)];
      y.push_back(xhat * gamma[at(c)] + (layer ? beta[at(c)] : 0));
      sum += layer ? g / width : 0, dot += g * xhat / width;
      dgamma[static_cast<size_t>(c)] += d * xhat, dbeta[static_cast<size_t>(c)] += d;
    }
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = r * C + c;
      dx.push_back(add[at(i)] + s * (dy[at(i)] * gamma[at(c)] - sum - (x[at(i)] - m) * s * dot));
    }
  }
  CHECK(error_of(got.y, y) < tolerance(in.type));
  CHECK(error_of(got.dx, dx) < tolerance(in.type));
  CHECK(error_of(got.dgamma, dgamma) < 1e-6);
  if (layer) CHECK(error_of(got.dbeta, dbeta) < 1e-6);
}

}  // namespace

TEST_CASE("norms of short and long rows match fp64, with the same bits on every run and at every address") {
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms, NormKind::rms_from_one);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [rows, C] = GENERATE(std::pair(9, 768), std::pair(3, 1600), std::pair(5, 3200), std::pair(3, 4100),
                                  std::pair(2, 8192), std::pair(37, 8200), std::pair(2, 9001));
  const Inputs in = Inputs::random(kind, type, rows, C);
  const Results got = run(in, 0);
  check(in, got);
  CHECK(run(in, 0) == got);
  CHECK(run(in, 1) == got);
}

TEST_CASE("norms of the heads of each token are those of the same rows one behind the other, and touch nothing else") {
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms, NormKind::rms_from_one);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [width, stride] = GENERATE(std::pair(20, 97), std::pair(128, 640), std::pair(9001, 27010));
  const int64_t C = width, heads = 3, tokens = 5, rows = heads * tokens;
  const bool layer = kind == NormKind::layer;
  const Inputs in = Inputs::random(kind, type, rows, C);
  const Results together = run(in, 0);
  const NormRows apart{rows, C, heads, stride};
  const KernelBuffer gaps = KernelBuffer::random(type, tokens * stride);
  const auto spread = [&](const KernelBuffer& values) {
    KernelBuffer wide = gaps;
    for (int64_t i = 0; i < rows * C; ++i) wide.set(apart.at(i / C) + i % C, static_cast<float>(values.at(i)));
    return wide;
  };
  KernelBuffer x = spread(in.x), dy = spread(in.dy), gamma = in.gamma, beta = in.beta, y = gaps;
  Results r{{type, 0}, {DType::f32, rows}, {DType::f32, rows}, {type, 0}, {DType::f32, C}, {DType::f32, C}};
  float* mean = layer ? r.mean.floats() : nullptr;
  norm(kind, type, x.data(), gamma.data(), layer ? beta.data() : nullptr, y.data(), mean, r.rstd.floats(), 1e-5f,
       apart);
  CHECK(y == spread(together.y));
  CHECK(r.rstd == together.rstd);
  KernelBuffer workspace =
      KernelBuffer::random(DType::f32, static_cast<int64_t>(norm_backward_workspace(kind, rows, C) / 4));
  KernelBuffer dx = spread(in.add);
  norm_backward(kind, type, x.data(), gamma.data(), dy.data(), mean, r.rstd.floats(), dx.data(), dx.data(),
                {r.dgamma.data(), DType::f32, false},
                layer ? GradTarget{r.dbeta.data(), DType::f32, false} : GradTarget{}, apart, workspace.data());
  CHECK(dx == spread(together.dx));
  CHECK(error_of(r.dgamma, doubles(together.dgamma)) < 1e-6);
  if (layer) CHECK(error_of(r.dbeta, doubles(together.dbeta)) < 1e-6);
  norm_backward(kind, type, x.data(), gamma.data(), dy.data(), mean, r.rstd.floats(), nullptr, dy.data(),
                {r.dgamma.data(), DType::f32, true},
                layer ? GradTarget{r.dbeta.data(), DType::f32, true} : GradTarget{}, apart, workspace.data());
  for (int64_t i = 0; i < tokens * stride; ++i) {
    if (i % stride >= heads * C && dy.at(i) != gaps.at(i)) FAIL("element " << i << " between the heads has changed");
  }
}

TEST_CASE("columns are copied between rows of different lengths, and nothing else is touched") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t rows = GENERATE(0, 1, 37), n = GENERATE(1, 8, 21, 64), x_stride = 75, y_stride = 66,
                shift = GENERATE(0, 1);
  Shifted x(type, KernelBuffer::random(type, rows * x_stride + 1), shift);
  Shifted y(type, KernelBuffer::random(type, rows * y_stride + 1), shift);
  const KernelBuffer from = x.values(), before = y.values();
  copy_columns(type, x.data(), x_stride, y.data(), y_stride, rows, n);
  const KernelBuffer after = y.values();
  for (int64_t i = 0; i < after.size(); ++i) {
    const int64_t row = i / y_stride, c = i % y_stride;
    const double expected = row < rows && c < n ? from.at(row * x_stride + c) : before.at(i);
    if (after.at(i) != expected) FAIL("element " << i);
  }
}

TEST_CASE("gradients of gamma and beta over many rows match fp64") {
  const Inputs in = Inputs::random(NormKind::layer, DType::bf16, 2500, 40);
  const Results got = run(in, 0);
  check(in, got);
  CHECK(run(in, 0) == got);
}

TEST_CASE("a residual sum with its norm gives the bits of the two one after the other") {
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms, NormKind::rms_from_one);
  const bool layer = kind == NormKind::layer;
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const Dropout dropout{{11, 5, 2}, GENERATE(0.0f, 0.2f)};
  const uint64_t first = GENERATE(0ull, 7ull);
  const int64_t C = GENERATE(33, 768, 1600, 3200, 8192, 8200), rows = 3, shift = GENERATE(0, 1);
  const KernelBuffer fresh_a = KernelBuffer::random(type, rows * C), fresh_b = KernelBuffer::random(type, rows * C);
  Shifted a(type, fresh_a, shift), b(type, fresh_b, shift), in_place = b;
  Shifted gamma(type, KernelBuffer::random(type, C), shift), beta(type, KernelBuffer::random(type, C), shift);
  Shifted y(type, KernelBuffer(type, rows * C), shift), expected_y = y;
  KernelBuffer mean(DType::f32, rows), rstd = mean, expected_mean = mean, expected_rstd = mean;
  void* beta_data = layer ? beta.data() : nullptr;
  add_residual(type, a.data(), b.data(), dropout, first, b.data(), rows * C);
  norm(kind, type, b.data(), gamma.data(), beta_data, expected_y.data(), layer ? expected_mean.floats() : nullptr,
       expected_rstd.floats(), 1e-5f, {rows, C});
  residual_norm(kind, type, a.data(), in_place.data(), dropout, first, in_place.data(), gamma.data(), beta_data,
                y.data(), layer ? mean.floats() : nullptr, rstd.floats(), 1e-5f, rows, C);
  CHECK(in_place.values() == b.values());
  CHECK(!(in_place.values() == fresh_b));
  CHECK(y.values() == expected_y.values());
  CHECK(mean == expected_mean);
  CHECK(rstd == expected_rstd);
  residual_norm(kind, type, a.data(), b.data(), {}, 0, b.data(), gamma.data(), beta_data, y.data(), nullptr, nullptr,
                1e-5f, rows, C);
  CHECK(rstd == expected_rstd);
}

}  // namespace zrt::norms_test
