// One matrix product made by every library that has it, on all ranks of a CPU at once.
#pragma once
#include <array>
#include <cstddef>

#include "models/kernels/gemm.h"

namespace zrt::runtime {

inline uint64_t product_aligned(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Operands, result and workspace of a product in one block of memory.
struct ProductRoom {
  ProductRoom(const models::GemmSpec& spec, uint64_t workspace_bytes)
      : a(product_aligned(static_cast<uint64_t>((spec.trans_a ? spec.K : spec.M) * spec.lda) *
                          core::dtype_size(spec.a))),
        b(product_aligned(static_cast<uint64_t>((spec.trans_b ? spec.N : spec.K) * spec.ldb) *
                          core::dtype_size(spec.b))),
        c(product_aligned(static_cast<uint64_t>(spec.M * spec.ldc) * core::dtype_size(spec.c))),
        workspace(workspace_bytes) {}
  uint64_t bytes() const { return a + b + c + workspace; }
  void run(const models::Gemm& gemm, std::byte* base) const {
    gemm.run(base, base + a, base + a + b, nullptr, base + a + b + c);
  }
  uint64_t a, b, c, workspace;
};

// zrt's own product, oneDNN's, BLAS's and PyTorch's, of those that exist.
enum Contender : size_t { own_product, dnnl_product, blas_product, torch_product, contenders };

// Median seconds of every contender in this process over `rounds` turns; infinity for one that has no such product. One
// that is far behind in the first turn takes no other.
std::array<double, contenders> contest_seconds(const models::GemmSpec& spec, int ranks, int threads, int rounds);

}  // namespace zrt::runtime
