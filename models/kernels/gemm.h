// Matrix products through the BLAS-like library of the back end (oneDNN on CPU). A spec fixes shapes, strides and
// types; the kernel table turns it into a primitive once, at plan time, with its workspace known to the byte.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"

namespace zrt::models {

using core::DType;

// C (M, N) = [C +] alpha · op(A) (M, K) · op(B) (K, N) [+ bias (N)]. Leading dimensions are of the stored, row-major
// matrices in elements: A is (M, K) with lda, or (K, M) when trans_a; likewise B. Sums are fp32, rounded once to `c`.
struct GemmSpec {
  int64_t M = 0, N = 0, K = 0;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  bool bias = false;        // of type `a`
  bool accumulate = false;  // add to C
  float alpha = 1;
  bool operator==(const GemmSpec&) const = default;
  std::string text() const;  // one line, for the kernel table and messages
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual uint64_t workspace_bytes() const = 0;
  // Thread safe: concurrent calls need workspaces of their own.
  virtual void run(const void* a, const void* b, void* c, const void* bias, void* workspace) const = 0;
  virtual std::string algorithm() const = 0;  // implementation name
};

// The gemm of `spec` for the calling thread's core::threads(). Made on first use and kept; thread safe. Throws
// core::Error when the library has no such product.
const Gemm& find_gemm(const GemmSpec& spec);

// XXH3 over the sorted lines "spec -> algorithm, workspace" of everything found so far, with the library's version.
std::string kernel_table_hash();

}  // namespace zrt::models
