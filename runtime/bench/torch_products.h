// PyTorch's matrix products on this machine's CPU (MKL's, where it was built with that), which a helper process times:
// one of the libraries that the GEMM ceiling is made of, where a Python with PyTorch is named.
#pragma once
#include <string>
#include <vector>

#include "models/kernels/gemm.h"

namespace zrt::runtime {

class TorchProducts {
 public:
  // python: a program, found through PATH. Throws core::DataError where that cannot be run or has no PyTorch; what it
  // printed has gone to stderr.
  explicit TorchProducts(std::string python);
  const std::string& name() const { return name_; }  // "PyTorch 2.12.1, MKL"

  // Median seconds of each product over `rounds` turns, on `ranks` processes of `threads` threads at once, of which the
  // mean counts; infinity where PyTorch has no product of its types. Throws core::DataError as the constructor does.
  std::vector<double> seconds(const std::vector<models::GemmSpec>& products, int ranks, int threads, int rounds) const;

 private:
  std::string python_, name_;
};

}  // namespace zrt::runtime
