// Matrix products of the back end (zrt's own and oneDNN's on the CPU, cuBLASLt's on a GPU). A spec fixes
// shapes, strides and types; the kernel table turns it into a primitive once, at plan time, with its workspace known to
// the byte.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"

namespace zrt::models {

using core::DType;

// An epilogue changes the product before it is written. `aux` is a matrix like C.
//   gelu: aux = the product, C = gelu(aux).
//   gelu_gradient: C = product · gelu'(aux).
enum class Epilogue : uint8_t { none, gelu, gelu_gradient };

// C (M, N) = [C +] [add +] alpha · op(A) (M, K) · op(B) (K, N) [+ bias (N)]. Leading dimensions are of the stored,
// row-major matrices in elements: A is (M, K) with lda, or (K, M) when trans_a; likewise B. Sums are fp32
// (tensor cores of GPUs cut them off where fp32 rounds), rounded once to `c`; with `add`, an epilogue or, on GPUs,
// `accumulate` perhaps once more in between, where the library does not do both in one pass of fp32.
//
// fp8: both operands, of bf16, are rounded to e4m3 before they are multiplied, each times a scale of its own: the
// largest power of two that leaves its largest element within 448 (fp8.h), found right before the product and taken out
// of its result again. Powers of two cost at most one bit of range and round nothing. Only where M, N, K and ldc are
// multiples of 16, as GPUs want it; elsewhere `fp8` changes nothing. GPUs keep about 14 bits of sums of up to 128 such
// products. C, bias, add and aux must lie on 16 bytes.
struct GemmSpec {
  int64_t M = 0, N = 0, K = 0;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  bool bias = false;        // of type `a`; of bf16 when that is e4m3
  bool accumulate = false;  // add to C
  float alpha = 1;
  bool add = false;                    // a matrix like C, which may be C; not with accumulate
  Epilogue epilogue = Epilogue::none;  // gelu_gradient without bias, neither with accumulate or add
  bool fp8 = false;                    // without it operands of e4m3 are multiplied as they are, by GPUs alone
  bool operator==(const GemmSpec&) const = default;
  DType bias_type() const { return a == DType::e4m3 ? DType::bf16 : a; }
  std::string text() const;  // one line, for the kernel table and messages
};

struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void *bias = nullptr, *add = nullptr;
  void* aux = nullptr;  // written by gelu, read by gelu_gradient
  void* workspace = nullptr;
  // Operands of e4m3 are multiplied by these, in the device's memory.
  const float *a_scale = nullptr, *b_scale = nullptr;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual uint64_t workspace_bytes() const = 0;
  // Thread safe: concurrent calls need workspaces of their own.
  virtual void run(const GemmOperands& operands) const = 0;
  virtual std::string algorithm() const = 0;  // implementation name

  void run(const void* a, const void* b, void* c, const void* bias, void* workspace) const {
    run({a, b, c, bias, nullptr, nullptr, workspace});
  }
};

// The gemm of `spec` for the calling thread's core::threads(). Made on first use and kept; thread safe. Throws
// core::Error when the library has no such product.
const Gemm& find_gemm(const GemmSpec& spec);

// True where products at place() add and apply epilogues while they write, so that this saves passes over memory. Where
// they do not, the passes are better made by whoever can join them with others.
bool products_fuse();

// The elements that rows of `columns` elements should lie apart in a matrix made for products at place(): on a GPU a
// whole number of cache lines, without which the fast kernels cannot read it.
int64_t product_stride(int64_t columns);

// XXH3 over the sorted lines "spec -> algorithm, workspace" of everything found so far, with the library's version.
std::string kernel_table_hash();

}  // namespace zrt::models
