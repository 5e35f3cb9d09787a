// OpenBLAS or BLIS of the machine, looked for when a benchmark runs: something to be compared with, not to depend on.
#pragma once
#include <string>

#include "models/kernels/gemm.h"

namespace zrt::runtime {

class Blas {
 public:
  // Returns null where the machine has neither. The library is held to the level of instruction sets of the process.
  // The first call is not thread safe.
  static const Blas* at_hand();

  const std::string& name() const { return name_; }  // with version and the processor it has kernels for
  // Says whether it has the product: fp32 throughout, nothing added.
  static bool has(const models::GemmSpec& spec);
  void run(const models::GemmSpec& spec, const void* a, const void* b, void* c) const;
  void set_threads(int count) const;  // of the calling thread's products

 private:
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                         const float* b, int ldb, float beta, float* c, int ldc);
  Blas() = default;
  static const Blas* open();

  std::string name_;
  Sgemm sgemm_ = nullptr;
  void (*set_threads_)(int) = nullptr;
};

}  // namespace zrt::runtime
