// Products with few rows, as generation has them: packing B would cost more than multiplying it.
#include <algorithm>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/cpu/tile_kernels.h"

namespace zrt::models::cpu {
namespace {

class ThinGemm : public Gemm {
 public:
  ThinGemm(const GemmSpec& spec, core::Isa isa) : spec_(spec), kernels_(tile_kernels(isa)) {
    BumpAllocator layout;
    lay_out(layout);
    workspace_ = layout.bytes();
  }

  uint64_t workspace_bytes() const override { return workspace_; }
  std::string algorithm() const override { return "thin"; }

  void run(const GemmOperands& operands) const override {
    BumpAllocator layout(static_cast<std::byte*>(operands.workspace));
    const Space space = lay_out(layout);
    with_type(spec_.a, [&](auto zero) { widen(static_cast<const decltype(zero)*>(operands.a), operands.bias, space); });
    core::parallel_for(spec_.N, thin_columns, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin; column < end; column += thin_columns) {
        const int64_t columns = std::min(thin_columns, end - column);
        for (int64_t row = 0; row < spec_.M; row += thin_rows) {
          multiply(operands, space, row, std::min(thin_rows, spec_.M - row), column, columns);
        }
      }
    });
  }

 private:
  struct Space {
    float *a, *bias;
  };

  Space lay_out(BumpAllocator& layout) const {
    Space space{};
    space.a = layout.take<float>(static_cast<uint64_t>(spec_.M * spec_.K) * 4);
    space.bias = layout.take<float>(spec_.bias ? static_cast<uint64_t>(spec_.N) * 4 : 0);
    return space;
  }

  // A becomes rows of fp32, scaled.
  template <class T>
  void widen(const T* a, const void* bias, const Space& space) const {
    for (int64_t row = 0; row < spec_.M; ++row) {
      float* to = space.a + row * spec_.K;
      if (spec_.trans_a) {
        for (int64_t k = 0; k < spec_.K; ++k) typed_kernels<T>().widen(a + k * spec_.lda + row, to + k, 1);
      } else {
        typed_kernels<T>().widen(a + row * spec_.lda, to, spec_.K);
      }
      if (spec_.alpha != 1) std::for_each(to, to + spec_.K, [&](float& x) { x *= spec_.alpha; });
    }
    if (spec_.bias) typed_kernels<T>().widen(static_cast<const T*>(bias), space.bias, spec_.N);
  }

  void multiply(const GemmOperands& operands, const Space& space, int64_t row, int64_t rows, int64_t column,
                int64_t columns) const {
    float sums[thin_rows * thin_columns];
    with_type(spec_.b, [&](auto zero) {
      const auto* b = static_cast<const decltype(zero)*>(operands.b) + (spec_.trans_b ? column * spec_.ldb : column);
      typed<decltype(zero)>(kernels_).thin(space.a + row * spec_.K, spec_.K, b, spec_.ldb, spec_.trans_b, rows, columns,
                                           spec_.K, sums);
    });
    with_type(spec_.c, [&](auto zero) {
      using T = decltype(zero);
      T* c = static_cast<T*>(operands.c) + row * spec_.ldc + column;
      const float* bias = spec_.bias ? space.bias + column : nullptr;
      typed<T>(kernels_).finish(sums, thin_columns, rows, columns, {c, spec_.ldc, spec_.accumulate, nullptr, 0, bias});
    });
  }

  GemmSpec spec_;
  const TileKernels& kernels_;
  uint64_t workspace_ = 0;
};

}  // namespace

std::unique_ptr<Gemm> make_thin_gemm(const GemmSpec& spec, core::Isa isa) {
  return std::make_unique<ThinGemm>(spec, isa);
}

}  // namespace zrt::models::cpu
