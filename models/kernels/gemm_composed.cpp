#include "models/kernels/gemm_composed.h"

#include <algorithm>
#include <cstddef>

#include "models/kernels/kernels.h"

namespace zrt::models {
namespace {

class ComposedGemm : public Gemm {
 public:
  ComposedGemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&)) : spec_(spec) {
    GemmSpec plain = spec;
    plain.add = false, plain.epilogue = Epilogue::none;
    plain_ = make(plain);
    workspace_ = plain_->workspace_bytes();
    if (spec.add) {
      plain.accumulate = true;
      accumulating_ = make(plain);
      workspace_ = std::max(workspace_, accumulating_->workspace_bytes());
    }
    // gelu_backward makes GELU's output again, as many rows at a time as fit; one must.
    if (spec.epilogue == Epilogue::gelu_gradient) workspace_ = std::max(workspace_, row_bytes(spec.N));
  }

  uint64_t workspace_bytes() const override { return workspace_; }
  std::string algorithm() const override { return plain_->algorithm() + " and passes"; }

  void run(const GemmOperands& operands) const override {
    GemmOperands product = operands;
    if (spec_.epilogue == Epilogue::gelu) product.c = operands.aux;
    // A product written over what is to be added would destroy it.
    if (spec_.add && operands.add == operands.c) return accumulating_->run(product);
    plain_->run(product);
    const int64_t piece = spec_.ldc != spec_.N                        ? 1
                          : spec_.epilogue == Epilogue::gelu_gradient ? rows_in_workspace()
                                                                      : spec_.M;
    for (int64_t row = 0; row < spec_.M; row += piece) finish(operands, row, std::min(piece, spec_.M - row));
  }

 private:
  uint64_t row_bytes(int64_t elements) const { return static_cast<uint64_t>(elements) * core::dtype_size(spec_.c); }
  int64_t rows_in_workspace() const { return static_cast<int64_t>(workspace_ / row_bytes(spec_.N)); }

  void finish(const GemmOperands& operands, int64_t row, int64_t rows) const {
    const uint64_t offset = static_cast<uint64_t>(row) * row_bytes(spec_.ldc);
    const auto at = [&](void* matrix) { return static_cast<std::byte*>(matrix) + offset; };
    const int64_t n = rows * spec_.N;
    if (spec_.epilogue == Epilogue::gelu) return gelu(spec_.c, at(operands.aux), at(operands.c), n);
    if (spec_.epilogue == Epilogue::gelu_gradient) {
      return gelu_backward(spec_.c, at(operands.aux), at(operands.c), operands.workspace, n);
    }
    const std::byte* added = static_cast<const std::byte*>(operands.add) + offset;
    add_residual(spec_.c, added, at(operands.c), {}, 0, at(operands.c), n);
  }

  GemmSpec spec_;
  std::unique_ptr<Gemm> plain_, accumulating_;
  uint64_t workspace_ = 0;
};

}  // namespace

std::unique_ptr<Gemm> compose_gemm(const GemmSpec& spec, std::unique_ptr<Gemm> (*make)(const GemmSpec&)) {
  return std::make_unique<ComposedGemm>(spec, make);
}

}  // namespace zrt::models
