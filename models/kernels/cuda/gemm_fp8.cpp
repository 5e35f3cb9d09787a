// Products of operands rounded to e4m3: copies of both with rows along K, the only way GPUs multiply fp8, then the
// library's product of the copies and their scales.
#include <cstddef>

#include "models/kernels/cuda/gemm.h"
#include "models/kernels/cuda/quantise.h"

namespace zrt::models::cuda {
namespace {

constexpr uint64_t unit = 256;

uint64_t whole(uint64_t bytes) {
  return (bytes + unit - 1) / unit * unit;
}

GemmSpec of_copies(GemmSpec spec) {
  spec.fp8 = false;
  spec.a = spec.b = DType::e4m3;
  spec.trans_a = false, spec.trans_b = true;
  spec.lda = spec.ldb = spec.K;
  return spec;
}

class Fp8Gemm : public Gemm {
 public:
  explicit Fp8Gemm(const GemmSpec& spec)
      : a_{spec.trans_a ? spec.K : spec.M, spec.trans_a ? spec.M : spec.K, spec.lda, spec.trans_a},
        b_{spec.trans_b ? spec.N : spec.K, spec.trans_b ? spec.K : spec.N, spec.ldb, !spec.trans_b},
        product_(make_gemm(of_copies(spec))) {}

  uint64_t workspace_bytes() const override { return unit + prefix_bytes() + product_->workspace_bytes(); }
  std::string algorithm() const override { return product_->algorithm() + " of operands rounded to e4m3"; }

  void run(const GemmOperands& operands) const override {
    const uintptr_t begin = whole(reinterpret_cast<uintptr_t>(operands.workspace));
    auto* at = reinterpret_cast<std::byte*>(begin);
    GemmOperands copies = operands;
    std::byte *a = at + 2 * operand_bytes, *b = a + copy_bytes(a_);
    copies.a_scale = rounded(a_, operands.a, at, a), copies.b_scale = rounded(b_, operands.b, at + operand_bytes, b);
    copies.a = a, copies.b = b, copies.workspace = at + prefix_bytes();
    product_->run(copies);
  }

 private:
  // Every operand's bytes: the parts of its largest magnitude and its scale.
  static constexpr uint64_t operand_bytes =
      (quantise_parts * sizeof(uint32_t) + sizeof(float) + unit - 1) / unit * unit;

  static uint64_t copy_bytes(const QuantisedMatrix& m) { return whole(static_cast<uint64_t>(m.rows * m.columns)); }
  uint64_t prefix_bytes() const { return 2 * operand_bytes + copy_bytes(a_) + copy_bytes(b_); }

  static const float* rounded(const QuantisedMatrix& matrix, const void* x, std::byte* own, std::byte* copy) {
    auto* parts = reinterpret_cast<uint32_t*>(own);
    auto* scale = reinterpret_cast<float*>(own + quantise_parts * sizeof(uint32_t));
    quantise(matrix, static_cast<const core::bf16*>(x), parts, reinterpret_cast<core::e4m3*>(copy), scale);
    return scale;
  }

  QuantisedMatrix a_, b_;
  std::unique_ptr<Gemm> product_;
};

}  // namespace

std::unique_ptr<Gemm> make_any_gemm(const GemmSpec& spec) {
  if (spec.fp8) return std::make_unique<Fp8Gemm>(spec);
  return make_gemm(spec);
}

}  // namespace zrt::models::cuda
