// cuBLASLt for one spec: descriptors, the deterministic algorithms for it, and the call. Row-major matrices are the
// library's column-major ones transposed, so it is asked for Cᵀ = op(B)ᵀ · op(A)ᵀ: its first operand is our B.
#pragma once
#include <cublasLt.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/kernels/gemm.h"

namespace zrt::models::cuda {

// Throws core::Error with the expression and the place in the source.
void check(cublasStatus_t status, const char* expression, const char* file, int line);
#define ZRT_LT(expression) ::zrt::models::cuda::check((expression), #expression, __FILE__, __LINE__)

constexpr uint32_t lt_wide = 16;  // bytes; fast kernels load and store so much at once
std::string lt_version();         // "13.0.2"

class LtProblem {
 public:
  // Throws core::Error for types the library does not multiply. Needs no GPU.
  explicit LtProblem(const GemmSpec& spec);

  const GemmSpec& spec() const { return spec_; }
  // The bytes of the library's own workspace, a function of the spec alone; it must lie on 256 bytes.
  uint64_t workspace_bytes() const;

  // At most `count` algorithms for pointers that are multiples of `alignment` bytes, the library's favourite first. All
  // add in a fixed order: no part of a split sum is added by whoever comes first, or rounded before it is complete.
  // fp32 is multiplied as fp32. Sums of e4m3 products are brought to fp32 every so often (fast accumulation is off);
  // between, Hopper's tensor cores keep about 14 bits of them. Empty when the library has none.
  std::vector<cublasLtMatmulAlgo_t> algorithms(uint32_t alignment, int count) const;

  // False for what is not worth asking for: a bias must have the type of C; the library's GELU is approximate beyond
  // what fp32 shows, and wants rows of the matrix before GELU on 16 bytes.
  bool library_has(uint32_t alignment) const;
  // True where an algorithm that did not come from algorithms() runs here and is one that they might return.
  bool runs(const cublasLtMatmulAlgo_t& algorithm) const;

  // Queues the product on the calling thread's stream.
  void run(const GemmOperands& operands, const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  struct Descriptors {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t first, second, result;
  };
  Descriptors describe(const GemmOperands& operands) const;  // bias, aux and scales of them
  bool allowed(const cublasLtMatmulAlgo_t& algorithm) const;

  GemmSpec spec_;
};

}  // namespace zrt::models::cuda
