// Products of operands rounded to e4m3, as the CPU plays them. Scales are powers of two, so the rounded numbers are
// numbers of bf16 even without their scale: bf16 copies of the operands are multiplied by the product for bf16.
#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/parallel.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/fp8.h"

namespace zrt::models::cpu {
namespace {

using core::bf16;

struct Matrix {
  int64_t rows, columns, ld;
  uint64_t copy_bytes() const { return (static_cast<uint64_t>(rows * columns) * sizeof(bf16) + 63) / 64 * 64; }
};

constexpr int64_t grain = 4;  // rows

uint32_t largest_bits(const Matrix& m, const bf16* x) {
  std::atomic<uint32_t> largest = 0;
  core::parallel_for(m.rows, grain, [&](int64_t begin, int64_t end) {
    uint32_t found = 0;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < m.columns; ++i) found = std::max<uint32_t>(found, x[row * m.ld + i].bits & 0x7fffu);
    }
    uint32_t known = largest;
    while (known < found && !largest.compare_exchange_weak(known, found)) {
    }
  });
  return largest << 16;
}

void round_matrix(const Matrix& m, const bf16* x, bf16* to) {
  const int exponent = fp8_exponent(largest_bits(m, x));
  const float scale = power_of_two(exponent), back = power_of_two(-exponent);
  core::parallel_for(m.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < m.columns; ++i) {
        const float rounded = core::to_float(core::to_e4m3(core::to_float(x[row * m.ld + i]) * scale));
        to[row * m.columns + i] = core::to_bf16(rounded * back);
      }
    }
  });
}

GemmSpec dense(GemmSpec spec) {
  spec.fp8 = false;
  spec.lda = spec.trans_a ? spec.M : spec.K, spec.ldb = spec.trans_b ? spec.K : spec.N;
  return spec;
}

class Fp8Gemm : public Gemm {
 public:
  Fp8Gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&))
      : a_{spec.trans_a ? spec.K : spec.M, spec.trans_a ? spec.M : spec.K, spec.lda},
        b_{spec.trans_b ? spec.N : spec.K, spec.trans_b ? spec.K : spec.N, spec.ldb},
        product_(make(dense(spec))) {}

  uint64_t workspace_bytes() const override { return a_.copy_bytes() + b_.copy_bytes() + product_->workspace_bytes(); }
  std::string algorithm() const override { return product_->algorithm() + " of operands rounded to e4m3"; }

  void run(const GemmOperands& operands) const override {
    std::byte* at = static_cast<std::byte*>(operands.workspace);
    bf16 *a = reinterpret_cast<bf16*>(at), *b = reinterpret_cast<bf16*>(at + a_.copy_bytes());
    round_matrix(a_, static_cast<const bf16*>(operands.a), a);
    round_matrix(b_, static_cast<const bf16*>(operands.b), b);
    GemmOperands rounded = operands;
    rounded.a = a, rounded.b = b, rounded.workspace = at + a_.copy_bytes() + b_.copy_bytes();
    product_->run(rounded);
  }

 private:
  Matrix a_, b_;
  std::unique_ptr<Gemm> product_;
};

}  // namespace

std::unique_ptr<Gemm> make_fp8_gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&)) {
  return std::make_unique<Fp8Gemm>(spec, make);
}

}  // namespace zrt::models::cpu
